package barrier_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// TestTheSummaryOfAClosedRunIsSaidAgain: headquarters dies after the mark and before
// the summary, which closed runs have been through too, or the broker forgets.
func TestTheSummaryOfAClosedRunIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(2)
		d.succeed(0)
		d.pass(2 * time.Minute)
		d.succeed(1)
		d.refuse(errors.New("the broker is away"))
		d.pass(time.Hour)
		if revs := d.revisions(); len(revs) != 2 || revs[1].PublishedAt.IsZero() || d.run().Phase() != protocol.PhaseClosed || len(d.summaries()) != 1 {
			t.Fatalf("revisions %+v, %d summaries; want one that is marked and not said, of a closed run", revs, len(d.summaries()))
		}
		d.close()
		d.refuse(nil)
		time.Sleep(30 * 24 * time.Hour) // nobody looked after headquarters
		d.open()
		d.start()
		d.pass(10 * time.Second)
		if sums := d.summaries(); len(sums) != 2 || sums[1].Revision != 2 || sums[1].Counts.Succeeded != 2 || len(sums[1].Files) != 3 {
			t.Fatalf("got summaries %+v; want revision 2 said once", sums)
		}
		if err := d.barrier.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.pass(10 * time.Second)
		if sums := d.summaries(); len(sums) != 3 || sums[2].Revision != 2 {
			t.Errorf("got summaries %+v; want revision 2 for a broker that forgot", sums)
		}
	})
}

// TestABrokerThatTakesNoSummaryKeepsNoRevisionBack, of the run whose summary it is or
// of one that waits to say its own, whether it refuses or does not answer. The newest summary comes when it is back.
func TestABrokerThatTakesNoSummaryKeepsNoRevisionBack(t *testing.T) {
	for name, silent := range map[string]bool{"refuses": false, "does not answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := setup(t)
				d.start()
				d.create(3)
				d.create(3, func(r *store.Run) { r.RunID = "R2" })
				d.pass(2 * time.Minute)
				mute := make(chan struct{})
				if silent {
					d.mute.Store(&mute)
				} else {
					d.refuse(errors.New("the broker is away"))
				}
				if err := d.barrier.Refresh(t.Context()); err != nil { // each run's summary is on its way
					t.Fatal(err)
				}
				d.settle()
				for i := range 2 {
					d.succeed(i)
					d.pass(time.Minute)
				}
				if got := d.series(); got != "r1:3 r2:3 r3:3" {
					t.Errorf("the revisions while the broker takes nothing: %s", got)
				}
				want := "[]"
				if !silent {
					want = "[summary_not_published R1: cannot publish"
				}
				if raised := fmt.Sprint(d.raised()); !strings.HasPrefix(raised, want) || strings.Contains(raised, "report_not") {
					t.Errorf("alarms: %s", raised)
				}
				d.refuse(nil)
				d.mute.Store(nil)
				close(mute)
				d.pass(2 * time.Minute)
				said := map[string]int{}
				for _, s := range d.summaries() {
					if s.Revision < said[s.RunID] {
						t.Errorf("revision %d of %s is said after revision %d", s.Revision, s.RunID, said[s.RunID])
					}
					said[s.RunID] = s.Revision
				}
				if said[runID] != 3 || said["R2"] != 1 {
					t.Errorf("said last: %v", said)
				}
				if raised := d.raised(); !silent && raised[len(raised)-1] != "summary_not_published R1: <nil>" {
					t.Errorf("the end of the trouble is not said: %q", raised)
				}
			})
		})
	}
}

// TestTheSummaryOfAnOpenRunIsSaidAgainWhenTheBrokerIsReached: also while the next
// revision cannot be published; and it says no summary that is older than another.
func TestTheSummaryOfAnOpenRunIsSaidAgainWhenTheBrokerIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(3)
		refresh := func() {
			if err := d.barrier.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.settle()
		}
		refresh() // of a run without a revision
		d.pass(2 * time.Minute)
		refresh()
		d.stuck.fail(errors.New("the disk is full"))
		d.succeed(1)
		d.pass(10 * time.Second)
		refresh()
		d.stuck.fail(nil)
		d.pass(time.Minute)
		refresh()
		var told []int
		for _, s := range d.summaries() {
			told = append(told, s.Revision)
		}
		if want := []int{1, 1, 1, 2, 2}; !slices.Equal(told, want) {
			t.Errorf("told of revisions %v, want %v", told, want)
		}
		if raised := d.raised(); len(raised) != 2 || !strings.HasPrefix(raised[0], "report_not_published") || raised[1] != "report_not_published R1: <nil>" {
			t.Errorf("alarms: %q", raised)
		}
	})
}
