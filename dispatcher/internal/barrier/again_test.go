package barrier_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
