package presence

// Spoil makes each look for twins that are gone panic.
func (p *Presence) Spoil() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[terminal{store: "spoiled"}] = nil
}
