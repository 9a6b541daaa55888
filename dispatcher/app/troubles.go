package app

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"muster/dispatcher/internal/quarantine"
	"muster/internal/protocol"
)

// maxTroubles bounds how many troubles are told at once.
const maxTroubles = 20

// troubles are those with runs that need a person and are not over, for who asks
// how headquarters is. The zero value is ready; safe for concurrent use.
type troubles struct {
	mu   sync.Mutex
	open map[string]string
}

// note takes a trouble in, and with nil its end.
func (t *troubles) note(kind, runID string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := kind + " " + runID
	if err == nil {
		delete(t.open, key)
		return
	}
	if t.open == nil {
		t.open = map[string]string{}
	}
	t.open[key] = fmt.Sprintf("%s: run %s: %v", kind, runID, err)
}

// list is a line for each, sorted, the first ones alone when there are many.
func (t *troubles) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Sorted(maps.Values(t.open))
	if rest := len(lines) - maxTroubles; rest > 0 {
		lines = append(lines[:maxTroubles], fmt.Sprintf("and %d more", rest))
	}
	return lines
}

// newWard is where steps do what may be headquarters' own fault.
func (hq *headquarters) newWard() *quarantine.Ward {
	return &quarantine.Ward{Logger: hq.log, Now: hq.now, Alarm: func(kind, subject string, trouble error) {
		hq.raise(protocol.SeverityCritical, kind, subject, trouble)
	}}
}
