package grant_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

// brittle is a store that panics over one task in what breaks names.
type brittle struct {
	*store.Store
	breaks atomic.Pointer[string]
}

const poisoned = "r-S000"

func (b *brittle) crack(what, taskID string) {
	if *b.breaks.Load() == what && taskID == poisoned {
		panic("nobody can " + what + " that")
	}
}

func (b *brittle) Grant(ctx context.Context, g store.Grant, now time.Time) (store.Granted, error) {
	b.crack("grant", g.TaskID)
	granted, err := b.Store.Grant(ctx, g, now)
	b.crack("answer", g.TaskID)
	return granted, err
}

func (b *brittle) NoteClaim(ctx context.Context, taskID string, now time.Time) error {
	b.crack("note", taskID)
	return b.Store.NoteClaim(ctx, taskID, now)
}

func (b *brittle) Settle(ctx context.Context, a store.Answer, now time.Time) (store.Settled, error) {
	b.crack("settle", a.Attempt.TaskID)
	return b.Store.Settle(ctx, a, now)
}

// mute panics over one kind of order of the same task.
type mute struct {
	*transport.Sender
	b *brittle
}

func (m mute) Order(ctx context.Context, storeID, terminalID string, o protocol.Order) error {
	m.b.crack(string(o.Order)+" aloud", o.TaskID)
	return m.Sender.Order(ctx, storeID, terminalID, o)
}

// shaky is a desk over a brittle store.
type shaky struct {
	*desk
	brittle *brittle
	alarms  steptest.Alarms
}

func (s *shaky) breaks(what string) { s.brittle.breaks.Store(&what) }

func openShaky(t *testing.T, l limits, breaks string) *shaky {
	t.Helper()
	s := &shaky{desk: &desk{t: t}}
	s.Bench = steptest.New(t, func(changes []store.Change) { s.Changed(changes) })
	s.brittle = &brittle{Store: s.Store}
	s.breaks(breaks)
	s.Admission = grant.New(grant.Config{Tasks: s.brittle, Attempts: s.brittle, Grants: s.Store, Orders: mute{s.Sender, s.brittle},
		Now: func() time.Time { s.brittle.crack("tell the time of", poisoned); return s.now() }, Logger: s.Logger, MaxRunning: l.running, PerSecond: l.perSecond, Burst: l.burst,
		Ward: &quarantine.Ward{Logger: s.Logger, Now: time.Now, Alarm: s.alarms.Raise}})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Admission.Stop)
	return s
}

func alarm(what, breaks string) string {
	return "step_panicked " + what + " of task r-S000, terminal S000/pos: headquarters panicked: nobody can " + breaks + " that"
}

// A claim that makes headquarters panic is told and costs no slot; the others
// are granted, and it is too once the fault is mended.
func TestAClaimThatPanicsHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openShaky(t, limits{running: 3, burst: 1}, "grant")
		s.Create("r", 3, steptest.Policy())
		for range 4 { // more often than there are slots
			s.claim("r", 0)
			synctest.Wait()
		}
		if told := s.alarms.Told(); told != alarm("the claim", "grant") {
			t.Errorf("alarms %s", told)
		}
		if got := s.Stats(); got.Running != 0 || got.Waiting != 0 {
			t.Errorf("it holds a slot or waits: %+v", got)
		}
		s.claim("r", 1)
		s.claim("r", 2)
		if n := len(s.grants()); n != 2 {
			t.Errorf("%d of the others are granted", n)
		}
		s.breaks("")
		s.claim("r", 0)
		if n := len(s.grants()); n != 3 {
			t.Errorf("%d are granted once the fault is mended", n)
		}
	})
}

// The slot of a grant that fails goes to the next, who is told of no change.
func TestAGrantThatFailsGivesItsPlaceToTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openShaky(t, limits{running: 1, burst: 1}, "grant")
		s.Create("busy", 1, steptest.Policy())
		s.Create("r", 2, steptest.Policy())
		s.claim("busy", 0)
		s.claim("r", 0)
		s.claim("r", 1)
		synctest.Wait()
		s.answer("busy", 0, 1, task.Succeed)
		if got := s.grants(); len(got) != 2 || got[1].Order.TaskID != "r-S001" {
			t.Errorf("granted %+v", got)
		}
	})
}

// What is committed before the panic counts: its slot comes back when its
// terminal, which is not told, does not start.
func TestAGrantThatPanicsAfterItsCommitIsTakenBackByItsLease(t *testing.T) {
	for _, breaks := range []string{"answer", "grant aloud"} {
		inBubble(t, func(t *testing.T) {
			s := openShaky(t, limits{running: 2, burst: 1}, breaks)
			s.Create("r", 2, steptest.Policy())
			s.claim("r", 0)
			s.claim("r", 1)
			if told := s.alarms.Told(); told != alarm("the claim", breaks) || len(s.grants()) != 1 || s.Stats().Running != 2 {
				t.Errorf("%d granted, %+v, alarms %s", len(s.grants()), s.Stats(), told)
			}
			s.progress("r", 1, 1)
			time.Sleep(grant.StartTimeout + time.Second)
			synctest.Wait()
			if got := s.Task(poisoned); got.State.Status == task.Running || s.Stats().Running != 1 {
				t.Errorf("the slot is not back: %+v", got.State)
			}
		})
	}
}

func TestWhatPanicsOverOneWaitingClaimOrOrderHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openShaky(t, limits{running: 1, burst: 1}, "note")
		s.Create("q", 1, steptest.Policy())
		s.Create("r", 2, steptest.Policy())
		s.claim("q", 0)
		s.claim("r", 0)
		s.claim("r", 1)
		if told := s.alarms.Told(); told != alarm("the claim", "note") || s.Task("r-S001").ClaimedAt.IsZero() {
			t.Errorf("alarms %s", told)
		}
		s.breaks("deny aloud")
		if _, _, err := s.Store.Cancel(t.Context(), "r", nil, task.ReasonByUser, "wang", time.Now()); err != nil {
			t.Fatal(err)
		}
		if told := s.alarms.Told(); told != alarm("an order", "deny aloud") || len(s.denials()) != 1 {
			t.Errorf("%d are denied, alarms %s", len(s.denials()), told)
		}
	})
}

// The slot of an attempt that cannot be ended stays taken, since it may run; it
// comes back once the fault is mended. The others end in time.
func TestALeaseWhoseEndPanicsIsTriedAgainAndHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openShaky(t, wide(), "settle")
		s.Create("r", 3, steptest.Policy())
		for i := range 3 {
			s.claim("r", i)
		}
		synctest.Wait()
		time.Sleep(grant.StartTimeout + 21*time.Second)
		if told := s.alarms.Told(); told != alarm("the end of the lease", "settle") || s.Stats().Running != 1 || s.Stats().Expired != 2 {
			t.Errorf("%+v, alarms %s", s.Stats(), told)
		}
		s.breaks("")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := s.Stats(); got.Running != 0 || got.Expired != 3 {
			t.Errorf("once the fault is mended: %+v", got)
		}
	})
}

// A round that makes headquarters panic is told, and keeps no slot; those who wait
// are granted soon after the fault is mended.
func TestARoundThatPanicsEndsNoAdmission(t *testing.T) {
	const told = "step_panicked admission: headquarters panicked: "
	inBubble(t, func(t *testing.T) {
		s := openShaky(t, limits{running: 1, burst: 1}, "")
		s.Create("busy", 1, steptest.Policy())
		s.Create("r", 2, steptest.Policy())
		s.claim("busy", 0)
		s.claim("r", 1)
		synctest.Wait()
		s.breaks("tell the time of")
		s.answer("busy", 0, 1, task.Succeed)
		if alarms := s.alarms.Told(); alarms != told+"nobody can tell the time of that" {
			t.Errorf("alarms %s", alarms)
		}
		s.breaks("")
		time.Sleep(5 * time.Second)
		if got := s.grants(); len(got) != 2 || got[1].Order.TaskID != "r-S001" {
			t.Errorf("granted %+v", got)
		}
		s.answer("r", 1, 1, task.Succeed)
		synctest.Wait()
		mend := s.SpoilNotes() // what comes after slots and tokens are taken
		time.Sleep(time.Minute)
		s.claim("r", 0)
		if alarms := s.alarms.Told(); !strings.HasPrefix(alarms, told) || s.Stats().Running != 0 {
			t.Errorf("%+v, alarms %s", s.Stats(), alarms)
		}
		mend()
		s.claim("r", 0)
		if got := s.grants(); len(got) != 3 || s.Stats().Running != 1 {
			t.Errorf("%d granted, %+v", len(got), s.Stats())
		}
	})
}

// The end of a lease that makes headquarters panic before the store is asked, or
// that cannot even be looked for, is told, and leases end when the fault is mended.
func TestTheLoopOfLeasesGoesOnAfterAPanic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openShaky(t, wide(), "")
		s.Create("r", 2, steptest.Policy())
		s.claim("r", 0)
		s.grants()
		s.breaks("tell the time of")
		time.Sleep(grant.StartTimeout + time.Second)
		if told := s.alarms.Told(); told != alarm("the end of the lease", "tell the time of") || s.Stats().Running != 1 {
			t.Errorf("%+v, alarms %s", s.Stats(), told)
		}
		s.breaks("")
		time.Sleep(5 * time.Second)
		if synctest.Wait(); s.Stats().Running != 0 {
			t.Errorf("once the fault is mended: %+v", s.Stats())
		}
		s.claim("r", 1)
		s.grants()
		mend := s.SpoilLeases()
		time.Sleep(grant.StartTimeout + time.Second)
		if told := s.alarms.Told(); !strings.HasPrefix(told, "step_panicked the ends of leases: headquarters panicked: ") || s.Stats().Running != 1 {
			t.Errorf("%+v, alarms %s", s.Stats(), told)
		}
		mend()
		time.Sleep(5 * time.Second)
		if synctest.Wait(); s.Stats().Running != 0 {
			t.Errorf("once the leases are mended: %+v", s.Stats())
		}
	})
}
