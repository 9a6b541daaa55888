package grant

// Known is how many runs admission remembers.
func (a *Admission) Known() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.runs)
}
