package ban

// Len is how many keys are remembered.
func (l *List) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.young) + len(l.old)
}
