package ledger

import "sync"

// Seen remembers, for each run, the fewest late answers that any snapshot saw
// since the last complete revision. The next revision is made of one of these
// snapshots, so it may claim no more than that: an answer is never lost to the
// report, at worst it is looked at twice. The zero value is ready; safe for
// concurrent use.
type Seen struct {
	mu     sync.Mutex
	fewest map[string]int64
}

// Note says that a snapshot of the run saw so many late answers.
func (s *Seen) Note(runID string, seen int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fewest == nil {
		s.fewest = map[string]int64{}
	}
	if old, ok := s.fewest[runID]; !ok || seen < old {
		s.fewest[runID] = seen
	}
}

// fewestOf is what the next revision may claim, -1 when no snapshot was taken.
func (s *Seen) fewestOf(runID string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.fewest[runID]; ok {
		return seen
	}
	return -1
}

// Forget drops what is known of the run.
func (s *Seen) Forget(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.fewest, runID)
}
