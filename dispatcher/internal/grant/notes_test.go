package grant_test

import (
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/internal/task"
)

// gathered lets claims of a run's stores come in while a grant of another run is on
// its way, so that the next round finds them all.
func gathered(t *testing.T, d *desk, run string, stores int) {
	t.Helper()
	d.Create("first", 1, steptest.Policy())
	d.tasks.granting.next(func() {
		for i := range stores {
			d.claim(run, i)
		}
	})
	d.claim("first", 0)
}

// claimed counts the tasks of a run that the report takes to have been claimed.
func (d *desk) claimed(run string, stores int) (n int) {
	d.t.Helper()
	for i := range stores {
		if !d.Task(steptest.TaskID(run, i)).ClaimedAt.IsZero() {
			n++
		}
	}
	return n
}

// TestWhoIsGrantedIsNotNotedBefore: the grant says it, and a note is a write more.
func TestWhoIsGrantedIsNotNotedBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const stores = 600 // more than a round
		d := open(t, "", limits{running: 5000, burst: 1})
		d.Create("r", stores, steptest.Policy())
		gathered(t, d, "r", stores)
		if got := len(d.grants()); got != stores+1 || d.tasks.notes.Load() != 0 {
			t.Errorf("%d grants and %d notes", got, d.tasks.notes.Load())
		}
		if n := d.claimed("r", stores); n != stores {
			t.Errorf("%d of %d count as claimed", n, stores)
		}
	})
}

// TestWhoLacksASlotOrTokenIsNotedWithinTheRound: a barrier that closes now finds
// that they wait (I5).
func TestWhoLacksASlotOrTokenIsNotedWithinTheRound(t *testing.T) {
	for name, c := range map[string]struct {
		limits
		job.Policy
		stores int
	}{
		"a slot":             {limits{running: 2, burst: 1}, steptest.Policy(), 600}, // more than are noted side by side
		"a token":            {limits{running: 100, burst: 2, perSecond: 0.001}, steptest.Policy(), 20},
		"a slot of its run":  {wide(), policyWith(func(p *job.Policy) { p.MaxRunning = 1 }), 20},
		"a token of its run": {wide(), policyWith(func(p *job.Policy) { p.GrantRate, p.GrantBurst = 0.001, 1 }), 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := open(t, "", c.limits)
				d.Create("r", c.stores, c.Policy)
				began := time.Now()
				gathered(t, d, "r", c.stores)
				synctest.Wait()
				if took := time.Since(began); took != 0 || d.Waiting("r") != c.stores-1 {
					t.Fatalf("%d wait after %v", d.Waiting("r"), took)
				}
				if n := d.claimed("r", c.stores); n != c.stores || d.tasks.notes.Load() != int64(c.stores)-1 {
					t.Errorf("%d of %d count as claimed, after %d notes", n, c.stores, d.tasks.notes.Load())
				}
			})
		})
	}
}

// TestABarrierKnowsWhoAskedThoughRoundsAreFull: of a run whose barrier is near, and
// of no other, claims are noted beside the grants of a full round (I5).
func TestABarrierKnowsWhoAskedThoughRoundsAreFull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const stores = 600
		d := open(t, "", limits{running: 5000, burst: 1})
		for name, barrier := range map[string]time.Duration{"first": time.Hour, "near": 20 * time.Second, "far": time.Hour} {
			d.Create(name, stores, policyWith(func(p *job.Policy) { p.Barrier = barrier }))
		}
		d.tasks.slow = func(string) time.Duration { return time.Second }
		d.tasks.granting.next(func() {
			time.Sleep(12 * time.Second)
			for i := range stores {
				d.claim("near", i)
				d.claim("far", i)
			}
		})
		d.claim("first", 0)
		time.Sleep(13*time.Second + time.Second/2) // in the middle of the full round
		synctest.Wait()
		near, far := d.claimed("near", stores), d.claimed("far", stores)
		if len(d.grants()) != 1 || near < stores/2 || far != 0 {
			t.Errorf("after %d grants %d of the run whose barrier is near count as claimed, and %d of the other", len(d.grants()), near, far)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if near = d.claimed("near", stores); near != stores {
			t.Errorf("a round later it is %d", near)
		}
	})
}

// TestWhoAsksForWhatIsBeingGrantedIsNotNoted, and is when that comes to nothing.
func TestWhoAsksForWhatIsBeingGrantedIsNotNoted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 10, burst: 2, perSecond: 0.001})
		d.Create("r", 1, steptest.Policy())
		d.tasks.granting.next(func() {
			d.claim("r", 0)
			d.claimAs("other", 0, "r-S000")
		})
		d.Create("first", 1, steptest.Policy())
		d.claim("first", 0)
		d.denied("S000/other TAKEN")
		if got := d.tasks.notes.Load(); got != 0 {
			t.Errorf("%d notes", got)
		}
	})
	inBubble(t, func(t *testing.T) {
		s := openShaky(t, limits{running: 10, burst: 2, perSecond: 0.001}, "grant")
		s.Create("first", 1, steptest.Policy())
		s.Create("r", 1, steptest.Policy())
		s.claim("first", 0)
		s.claim("r", 0) // its token is spent on nothing
		s.claimAs("other", 0, poisoned)
		synctest.Wait()
		if s.Waiting("r") != 1 || s.Task(poisoned).ClaimedAt.IsZero() {
			t.Errorf("%d wait, claimed at %v", s.Waiting("r"), s.Task(poisoned).ClaimedAt)
		}
	})
}

// TestANoteIsMadeOnce, however often a terminal goes and comes back.
func TestANoteIsMadeOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := busy(t, limits{burst: 1})
		d.Create("r", 1, steptest.Policy())
		for range 3 {
			d.claim("r", 0)
			d.grants()
			d.Offline("S000", "pos")
		}
		if got := d.tasks.notes.Load(); got != 1 {
			t.Errorf("%d notes", got)
		}
		d.claim("r", 0)
		d.answer("busy", 0, 1, task.Succeed)
		if got := d.grants(); len(got) != 2 {
			t.Errorf("granted %+v", got)
		}
	})
}
