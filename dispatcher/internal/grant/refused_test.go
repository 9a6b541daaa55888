package grant_test

import (
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// TestARefusedGrantGivesItsSlotBack: what a newer run took the place of, when its
// turn comes, takes no place from the others.
func TestARefusedGrantGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, burst: 1})
		p := steptest.Policy()
		p.Makeup, p.Backlog = job.MaxMakeup, job.BacklogNewest
		d.Create("old", 2, p)
		d.claim("old", 0)
		d.claim("old", 1) // waits
		judge(t, d, "old")
		time.Sleep(time.Second)
		d.Create("new", 2, p)
		d.answer("old", 0, 1, task.Succeed)
		if got := d.denials(); len(got) != 1 || got[0].Order.Code != protocol.CodeSettled {
			t.Errorf("denied %+v", got)
		}
		d.claim("new", 1)
		if got := d.grants(); len(got) != 2 || got[1].Order.TaskID != steptest.TaskID("new", 1) {
			t.Errorf("%d grants, and %+v", len(got), d.Stats())
		}
	})
}

// judge makes the first revision of a run.
func judge(t *testing.T, d *desk, run string) {
	t.Helper()
	snap, err := d.Store.CloseBarrier(t.Context(), run, d.now())
	if err != nil {
		t.Fatal(err)
	}
	var rows []store.OutcomeRow
	for c, err := range snap.Candidates() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, store.OutcomeRow{StoreID: c.Place.StoreID, Outcome: task.OutcomeOffline, Reason: task.ReasonOfflineWholeWindow, Row: []byte(`{}`)})
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Store.AddRevision(t.Context(), store.NewRevision{RunID: run, Revision: 1, Why: string(protocol.WhyBarrier), AsOf: d.now(), Rows: rows}, d.now()); err != nil {
		t.Fatal(err)
	}
}

// TestAClaimForWhatIsOverIsDeniedAtOnce, whether or not a slot is free.
func TestAClaimForWhatIsOverIsDeniedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, burst: 1})
		old := d.Create("old", 2, steptest.Policy())
		time.Sleep(time.Until(old.MakeupUntil) - time.Second)
		d.Create("new", 1, steptest.Policy())
		d.claim("new", 0)
		time.Sleep(time.Second)
		d.claim("old", 1)
		if got := d.denials(); len(got) != 1 || got[0].Order.Code != protocol.CodeSettled {
			t.Errorf("denied %+v", got)
		}
	})
}
