package site

import (
	"encoding/json"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// lookAgain is how long to wait when what is retained is behind the database.
const lookAgain = 500 * time.Millisecond

// stands is what was last got of each run.
type stands struct {
	summary map[string]protocol.Summary
	state   map[string]protocol.RunStateReport
}

// lookRetained writes down what stands retained of each run for whoever subscribes
// now, again until that is as new as the database, or until it must be. Without a
// broker nothing stands.
func (s *Site) lookRetained() {
	s.t.Helper()
	w := s.Writer(history.Participant{Who: "topics", Role: history.RoleCollector})
	messages := make(chan fleet.Message, 1<<16)
	conn, err := fleet.Dial(s.t.Context(), s.Addr, fleet.Login{User: "topics"}, func(m fleet.Message) {
		if err := w.Got(m.Topic, m.Payload, m.Retained); err != nil {
			s.t.Error(err)
		}
		messages <- m
	})
	if err != nil {
		return
	}
	defer conn.Close()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for until := time.Now().Add(s.Config.Limits.Retained + lookAgain); ; <-tick.C {
		last, now := time.Now().After(until), s.Store()
		if s.subscribeRetained(w, conn, messages, now.Runs).current(now) || last {
			return
		}
	}
}

// subscribeRetained gets what is retained of each run. A broker sends it in the
// order of the filters, so that with info all that there is has come.
func (s *Site) subscribeRetained(w *history.Writer, conn *fleet.Conn, messages <-chan fleet.Message, runs []checker.Run) stands {
	s.t.Helper()
	got := stands{map[string]protocol.Summary{}, map[string]protocol.RunStateReport{}}
	for _, run := range runs {
		filters := []string{"muster/v1/runs/" + run.RunID + "/state", "muster/v1/runs/" + run.RunID + "/summary"}
		for _, filter := range filters {
			if err := w.Subscribed(filter); err != nil {
				s.t.Fatal(err)
			}
		}
		if err := conn.Subscribe(s.t.Context(), append(filters, "muster/v1/info")...); err != nil {
			s.t.Fatal(err)
		}
		for last := false; !last; {
			select {
			case m := <-messages:
				last = m.Topic == "muster/v1/info"
				got.take(m)
			case <-conn.Done():
				s.t.Fatal("the broker went away while somebody looked at what it retains")
			case <-time.After(programs.Patience):
				s.t.Fatal("the broker does not say what it retains")
			}
		}
	}
	return got
}

func (g stands) take(m fleet.Message) {
	var summary protocol.Summary
	var state protocol.RunStateReport
	switch {
	case strings.HasSuffix(m.Topic, "/summary") && json.Unmarshal(m.Payload, &summary) == nil:
		g.summary[summary.RunID] = summary
	case strings.HasSuffix(m.Topic, "/state") && json.Unmarshal(m.Payload, &state) == nil:
		g.state[state.RunID] = state
	}
}

// current: what there is says as much as the database, and nothing that will come
// lacks: of a run that is over it may have been forgotten.
func (g stands) current(now checker.Store) bool {
	published := map[string]int{}
	for _, rev := range now.Revisions {
		if rev.PublishedAt != 0 {
			published[rev.RunID] = max(published[rev.RunID], rev.Revision)
		}
	}
	for _, run := range now.Runs {
		over := run.EndedAt != 0
		summary, summed := g.summary[run.RunID]
		state, stated := g.state[run.RunID]
		if (summed || !over) && summary.Revision < published[run.RunID] || !stated && !over ||
			stated && (state.Revision < run.Revision || over && state.Phase != protocol.PhaseClosed) {
			return false
		}
	}
	return true
}
