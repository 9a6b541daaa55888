package heap

// PercentFor is for tests.
func PercentFor(size, live, read uint64) int { return percentFor(size, live, read) }
