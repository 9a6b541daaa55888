package e2e_test

import (
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/programs"
)

// TestKilledAgentIsSoonOfflineOverAnExternalBroker: kill -9 resets the
// connection, and nobody waits for the keep-alive of 30 s. Our broker sends the
// will at once, since the end of the session cuts its delay short; mosquitto
// waits out the delay of 15 s.
func TestKilledAgentIsSoonOfflineOverAnExternalBroker(t *testing.T) {
	t.Parallel()
	most := map[string]time.Duration{"stand-alone": 5 * time.Second, "mosquitto": 20 * time.Second}
	for name, prepare := range externals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := prepare(t)
			broker.start()
			s := newSite(t, trio, broker.addr)
			s.serve()
			agents := map[string]*programs.Process{}
			for _, store := range trio {
				agents[store] = s.agent(store, quickProbe(s))
			}
			first := s.ask("run", `{"job":"probe","stores":"all"}`)
			s.report(first.RunID, 1)
			online := func() int {
				reply := s.askPatiently("status", `{"runId":"`+first.RunID+`"}`)
				if reply.State == nil {
					t.Fatalf("status %+v", reply)
				}
				return reply.State.Online
			}
			programs.Eventually(t, "three terminals online", func() bool { return online() == len(trio) })

			agents["B"].Kill()
			killed := time.Now()
			programs.Eventually(t, "the killed terminal offline", func() bool { return online() == len(trio)-1 })
			if took := time.Since(killed); took > most[name] {
				t.Errorf("offline after %v", took)
			}
			second := s.askPatiently("run", `{"job":"probe","stores":"all","barrierSeconds":2}`)
			report, _ := s.report(second.RunID, 1)
			if report.Counts != (protocol.Counts{Succeeded: 2, Offline: 1}) {
				t.Errorf("counts %+v", report.Counts)
			}
			for _, row := range report.Stores {
				if row.StoreID == "B" && row.Reason != task.ReasonOfflineWholeWindow {
					t.Errorf("store B: %s %s", row.Outcome, row.Reason)
				}
			}

			s.agent("B", quickProbe(s))
			programs.Eventually(t, "three terminals online again", func() bool { return online() == len(trio) })
		})
	}
}

// askPatiently asks again when headquarters has heard too much.
func (s *site) askPatiently(verb, payload string) (reply protocol.Reply) {
	s.t.Helper()
	programs.Eventually(s.t, "a reply to "+verb, func() bool {
		reply = s.ask(verb, payload)
		return reply.Code != protocol.CodeRateLimited
	})
	return reply
}
