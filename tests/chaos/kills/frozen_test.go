package kills_test

import (
	"testing"
	"time"

	"muster/tests/chaos/history"
	"muster/tests/programs"
)

// TestFrozenHeadquartersAccusesNoStore stops headquarters over the end of a lease and
// of a barrier while the store answers: what waits in the sockets is read before
// anything is judged.
func TestFrozenHeadquartersAccusesNoStore(t *testing.T) { // I7
	t.Parallel()
	s := newSceneOf(t, "attempts: 1, run_timeout: 60s, lease: 10s, barrier: 15s, makeup: 1h")
	reply, _ := s.ask()
	s.Executed("A", 1)
	resume := s.pause()
	s.Open("A")
	programs.Eventually(t, "the answer on its way", func() bool { return s.said(history.ActSent, `"outcome":"succeeded"`) })
	programs.Eventually(t, "the barrier in the past", func() bool { return time.Since(reply.BarrierAt.Time) > 2*time.Second })
	resume()
	s.ended(reply.RunID, 1, 1)
	if got := s.Rows(`SELECT outcome || ' ' || reason FROM outcomes WHERE revision = 1`); len(got) != 1 || got[0] != "succeeded " {
		t.Errorf("revision 1 says %q", got)
	}
}
