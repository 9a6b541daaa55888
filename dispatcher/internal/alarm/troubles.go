package alarm

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// maxListed bounds how many troubles are told at once.
const maxListed = 20

// Troubles are those that need a person and are not over, for who asks how
// headquarters is. The zero value is ready; safe for concurrent use.
type Troubles struct {
	mu   sync.Mutex
	open map[string]string
}

// Note takes a trouble with a subject in, and with nil its end.
func (t *Troubles) Note(kind, subject string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := kind + " " + subject
	if err == nil {
		delete(t.open, key)
		return
	}
	if t.open == nil {
		t.open = map[string]string{}
	}
	t.open[key] = fmt.Sprintf("%s: %s: %v", kind, subject, err)
}

// Count is how many there are.
func (t *Troubles) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// Open says whether a trouble is not over.
func (t *Troubles) Open(kind, subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.open[kind+" "+subject]
	return there
}

// List is a line for each, sorted, the first ones alone when there are many.
func (t *Troubles) List() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Sorted(maps.Values(t.open))
	if rest := len(lines) - maxListed; rest > 0 {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", rest))
	}
	return lines
}
