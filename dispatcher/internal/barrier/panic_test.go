package barrier_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/store"
)

// poisonedSnapshots panics in the middle of judging or revising R1.
type poisonedSnapshots struct {
	barrier.Snapshots
	on atomic.Bool
}

func (p *poisonedSnapshots) CloseBarrier(ctx context.Context, id string, now time.Time) (barrier.Snapshot, error) {
	snap, err := p.Snapshots.CloseBarrier(ctx, id, now)
	return &poisonedSnapshot{snap, p.on.Load() && id == runID}, err
}

func (p *poisonedSnapshots) Snapshot(ctx context.Context, id string) (barrier.Snapshot, error) {
	snap, err := p.Snapshots.Snapshot(ctx, id)
	return &poisonedSnapshot{snap, p.on.Load() && id == runID}, err
}

type poisonedSnapshot struct {
	barrier.Snapshot
	on bool
}

func (p *poisonedSnapshot) Candidates() iter.Seq2[store.Candidate, error] {
	return func(yield func(store.Candidate, error) bool) {
		for c, err := range p.Snapshot.Candidates() {
			if p.on {
				panic("a candidate that nobody can judge")
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// other makes a second run beside R1, closing a minute later.
func (d *desk) other() {
	d.create(2, func(r *store.Run) { r.RunID, r.BarrierAt = "R2", r.BarrierAt.Add(time.Minute) })
}

func (d *desk) published(id string) int {
	n := 0
	for _, s := range d.summaries() {
		if s.RunID == id {
			n++
		}
	}
	return n
}

// A report that makes headquarters panic is not published, is told, and comes
// when the fault is mended; all other runs' reports come as ever.
func TestAReportThatPanicsStopsNoOtherAndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.report.poison.Store("csv")
		d.start()
		d.create(1)
		d.other()
		d.pass(20 * time.Minute) // more tries than there are readers
		if d.published(runID) != 0 || d.published("R2") != 1 {
			t.Errorf("published R1 %d times, R2 %d times", d.published(runID), d.published("R2"))
		}
		for name := range d.files() {
			if strings.HasSuffix(name, ".tmp") || strings.Contains(name, "_R1_r1_manifest") || strings.HasSuffix(name, "_R1_r1.csv") {
				t.Errorf("left behind: %s", name)
			}
		}
		raised := d.raised()
		if len(raised) != 1 || !strings.HasPrefix(raised[0], "report_not_published R1: ") ||
			!strings.Contains(raised[0], "_R1_r1.csv") || !strings.Contains(raised[0], "nobody can write") {
			t.Errorf("raised %q; want one that names the file and the cause", raised)
		}
		d.report.poison.Store("")
		d.pass(2 * time.Minute)
		if raised := d.raised(); d.published(runID) != 1 || raised[len(raised)-1] != "report_not_published R1: <nil>" {
			t.Errorf("published %d times, raised %q", d.published(runID), raised)
		}
	})
}

// A run that makes headquarters panic while it is judged, or revised, is told
// and tried again; it takes nothing from the others, not one reader.
func TestARunThatCannotBeJudgedStopsNoOtherAndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.poison.on.Store(true)
		d.start()
		d.create(2)
		d.other()
		d.pass(20 * time.Minute)
		if len(d.revisions()) != 0 || d.published("R2") != 1 {
			t.Errorf("R1 has %d revisions, R2 is published %d times", len(d.revisions()), d.published("R2"))
		}
		if raised := d.raised(); len(raised) != 1 || !strings.HasPrefix(raised[0], "barrier_stuck R1: ") || !strings.Contains(raised[0], "nobody can judge") {
			t.Errorf("raised %q", raised)
		}
		d.poison.on.Store(false)
		d.pass(2 * time.Minute)
		if d.published(runID) != 1 {
			t.Fatalf("R1 is published %d times after the fault was mended", d.published(runID))
		}
		d.poison.on.Store(true)
		d.succeed(0)
		d.pass(5 * time.Minute)
		d.poison.on.Store(false)
		d.pass(2 * time.Minute)
		if revs := d.revisions(); len(revs) != 2 || d.published(runID) != 2 {
			t.Errorf("got revisions %+v, %d summaries", revs, d.published(runID))
		}
	})
}

// A change that makes headquarters panic is told, and what is noted after it counts.
func TestAChangeThatPanicsIsToldAndTheNextCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.barrier.Post(func() { panic("a change that nobody can note") })
		d.create(1)
		d.pass(3 * time.Minute)
		raised := d.raised()
		if len(raised) != 1 || !strings.HasPrefix(raised[0], "step_panicked ") || !strings.Contains(raised[0], "nobody can note") {
			t.Errorf("raised %q", raised)
		}
		if d.published(runID) != 1 {
			t.Errorf("published %d times", d.published(runID))
		}
	})
}

// A run that the loop cannot handle is told, and keeps no other from its deadline.
func TestARunThatPanicsInTheLoopStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(1)
		d.barrier.Spoil()
		d.pass(2 * time.Minute)
		if raised := d.raised(); len(raised) == 0 || !strings.HasPrefix(raised[0], "step_panicked what run spoiled needs next: headquarters panicked: ") {
			t.Errorf("raised %q", raised)
		}
		if d.published(runID) != 1 {
			t.Errorf("published %d times", d.published(runID))
		}
	})
}

// A turn of the loop that panics is told and not the last.
func TestALoopThatPanicsGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(1)
		d.pass(time.Minute)
		d.mad.Store(true)
		d.pass(2 * time.Minute)
		if raised := d.raised(); len(raised) == 0 || raised[0] != "step_panicked the deadlines of runs: headquarters panicked: nobody can tell the time" {
			t.Errorf("raised %q", raised)
		}
		d.mad.Store(false)
		d.pass(time.Second)
		if d.published(runID) != 1 {
			t.Errorf("published %d times", d.published(runID))
		}
	})
}
