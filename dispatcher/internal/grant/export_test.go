package grant

// Known is how many runs admission remembers.
func (a *Admission) Known() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.runs)
}

// SpoilNotes has each round panic after its slots are taken, until it is mended.
func (a *Admission) SpoilNotes() (mend func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	spoiled := &run{}
	a.fresh[spoiled] = []*claim{nil}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.fresh, spoiled)
	}
}

// SpoilLeases has nobody find a lease that ends, until it is mended.
func (a *Admission) SpoilLeases() (mend func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	leases := a.slots.leases
	a.slots.leases = append(leaseHeap{nil}, leases...)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.slots.leases = leases
	}
}
