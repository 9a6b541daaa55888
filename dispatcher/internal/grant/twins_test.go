package grant_test

import (
	"path/filepath"
	"testing"
	"time"

	"muster/dispatcher/internal/steptest"
	"muster/internal/protocol"
)

// claimBy claims the first store's task as a process of its terminal.
func (d *desk) claimBy(instance, previous string) {
	d.t.Helper()
	m := protocol.Claim{TaskID: steptest.TaskID("r", 0), Instance: instance, Previous: previous}
	if err := d.HandleClaim(d.t.Context(), steptest.From(0, protocol.KindClaim), steptest.Message(m)); err != nil {
		d.t.Error(err)
	}
}

// TestAGrantIsForTheProcessThatAsked: a second machine with the same identity
// gets it neither said again nor, after a restart of headquarters, at all; a
// process that took up the work of the first does, once.
func TestAGrantIsForTheProcessThatAsked(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "muster.db")
				d := open(t, path, wide())
				d.Create("r", 1, steptest.Policy())
				d.claimBy("A", "")
				got := d.grants()
				if len(got) != 1 || got[0].Order.Instance != "A" {
					t.Fatalf("granted %+v", got)
				}
				if restart {
					d.Admission.Stop()
					d.Bench.Close()
					d = open(t, path, wide())
				}
				d.Broker.Forget()
				d.claimBy("B", "")
				d.claimBy("B", "X")
				d.claimBy("", "")
				if got := d.grants(); len(got) != 0 {
					t.Fatalf("another process is granted %+v", got)
				}
				if got := d.denials(); len(got) != 3 || got[0].Order.Code != protocol.CodeTaken || got[0].Order.RetryAfterMs == 0 {
					t.Errorf("denied %+v", got)
				}
				d.claimBy("A", "")
				d.claimBy("A2", "A") // it was restarted
				d.claimBy("B2", "A") // of a copy of its disk
				d.claimBy("A", "")
				got = d.grants()
				if len(got) != 2 || got[0].Order.Instance != "A" || got[1].Order.Instance != "A2" || got[1].Order.Attempt != 1 {
					t.Errorf("said again %+v", got)
				}
				d.progress("r", 0, 1)
				d.Broker.Forget()
				d.claimBy("A2", "")
				if got := d.grants(); len(got) != 0 {
					t.Errorf("an attempt that was seen alive is granted again: %+v", got)
				}
			})
		})
	}
}

// TestTheLastProcessToAskIsGranted: the one before it was pushed out.
func TestTheLastProcessToAskIsGranted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, perSecond: 0.1, burst: 1})
		d.Create("other", 1, steptest.Policy())
		d.claim("other", 0)
		d.grants()
		d.Create("r", 1, steptest.Policy())
		d.claimBy("A", "")
		d.claimBy("B", "")
		d.answer("other", 0, 1, "succeed")
		time.Sleep(11 * time.Second)
		if got := d.grants(); len(got) != 2 || got[1].Order.Instance != "B" || d.Task("r-S000").Instance != "B" {
			t.Errorf("granted %+v", got)
		}
	})
}
