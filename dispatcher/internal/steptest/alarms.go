package steptest

import (
	"fmt"
	"strings"
	"sync"
	"testing/synctest"
)

// Alarms records what is raised. It is safe for concurrent use.
type Alarms struct {
	mu   sync.Mutex
	list []string
}

// Raise is what steps and wards take as Alarm.
func (a *Alarms) Raise(kind, subject string, trouble error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
}

// Told returns the alarms since it was last asked, a line each, once the bubble is
// at rest.
func (a *Alarms) Told() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	told := strings.Join(a.list, "\n")
	a.list = nil
	return told
}
