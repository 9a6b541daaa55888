package logs

// MaxKeys is how many keys are told apart.
const MaxKeys = maxKeys

// MaxText is how much of a value a line keeps, in bytes.
const MaxText = maxText

// Remembered counts the keys in memory.
func (s *Sparing) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}
