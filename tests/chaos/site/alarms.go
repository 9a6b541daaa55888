package site

import (
	"encoding/json"
	"sync"
	"testing"

	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// Alarms are those that were heard since somebody listens.
type Alarms struct {
	t testing.TB

	mu    sync.Mutex
	heard []protocol.Alarm
}

// Alarms hears the alarms of headquarters until it goes away.
func (s *Site) Alarms() *Alarms {
	s.t.Helper()
	a := &Alarms{t: s.t}
	conn, err := fleet.Dial(s.t.Context(), s.Addr, fleet.Login{User: "ops"}, func(m fleet.Message) {
		var alarm protocol.Alarm
		if err := json.Unmarshal(m.Payload, &alarm); err != nil {
			s.t.Error(err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.heard = append(a.heard, alarm)
	})
	if err == nil {
		err = conn.Subscribe(s.t.Context(), "muster/v1/alarms/#")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return a
}

// Await waits for an alarm of the kind, or for the word that it is over, and forgets
// what came before it.
func (a *Alarms) Await(kind string, recovered bool) (alarm protocol.Alarm) {
	a.t.Helper()
	what := "the alarm " + kind
	if recovered {
		what += " that it is over"
	}
	programs.Eventually(a.t, what, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i, heard := range a.heard {
			if heard.Kind == kind && heard.Recovered == recovered {
				alarm, a.heard = heard, a.heard[i+1:]
				return true
			}
		}
		return false
	})
	return alarm
}
