// Package measure counts what headquarters does and writes the page of /metrics: its own
// counts, those of the steps, and what the machine has left. It changes nothing.
package measure

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/metrics"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Meter is what is counted beside what the steps count themselves. Make it with New;
// safe for concurrent use.
type Meter struct {
	began   time.Time
	created atomic.Int64
	commits *metrics.Histogram

	mu      sync.Mutex
	settled map[task.Status]int64
	alarms  map[[2]string]int64 // by severity and kind
}

// New returns a meter at 0. began is when headquarters began.
func New(began time.Time) *Meter {
	return &Meter{began: began, settled: map[task.Status]int64{}, alarms: map[[2]string]int64{},
		// A commit waits for the disk: from a fast one to one that is about to fail.
		commits: metrics.NewHistogram(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)}
}

// Committed notes how long a commit took.
func (m *Meter) Committed(took time.Duration) { m.commits.Note(took) }

// Changed follows the store's change feed.
func (m *Meter) Changed(changes []store.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		switch c.Kind {
		case store.RunCreated:
			m.created.Add(1)
		case store.TaskMoved:
			if c.Task.State.Settled && !c.From.Settled {
				m.settled[c.Task.State.Status]++
			}
		case store.RevisionReady, store.RunClosed:
		}
	}
}

// Alarm notes an alarm that was raised.
func (m *Meter) Alarm(severity protocol.Severity, kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alarms[[2]string{string(severity), kind}]++
}

// raised are the alarms by severity and kind: each page has them in the same order. The
// caller holds mu.
func (m *Meter) raised() (all []metrics.Sample) {
	byName := func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
	for _, kind := range slices.SortedFunc(maps.Keys(m.alarms), byName) {
		all = append(all, metrics.Labelled(m.alarms[kind], "severity", kind[0], "kind", kind[1]))
	}
	return all
}
