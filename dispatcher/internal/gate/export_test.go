package gate

// MaxSubjects is how many terminals a minute are told of.
const MaxSubjects = maxSubjects

// Remember lets the gate keep at most n keys in memory.
func (g *Gate) Remember(n int) { g.keys.most = n }

// Remembered counts the keys in memory.
func (g *Gate) Remembered() int {
	g.keys.mu.RLock()
	defer g.keys.mu.RUnlock()
	return len(g.keys.good)
}

// Told counts what the gate remembers to have told.
func (g *Gate) Told() (n int) {
	for _, q := range []*quieter{g.log, g.alarms} {
		q.mu.Lock()
		n += len(q.now) + len(q.past)
		q.mu.Unlock()
	}
	return n
}
