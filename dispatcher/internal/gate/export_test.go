package gate

// Remember lets the gate keep at most n keys in memory.
func (g *Gate) Remember(n int) { g.keys.most = n }

// Remembered counts the keys in memory.
func (g *Gate) Remembered() int {
	g.keys.mu.RLock()
	defer g.keys.mu.RUnlock()
	return len(g.keys.good)
}
