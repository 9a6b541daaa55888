package intake_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// mute panics over the order to send the result of one task, while on.
type mute struct {
	*transport.Sender
	on atomic.Bool
}

func (m *mute) Order(ctx context.Context, storeID, terminalID string, o protocol.Order) error {
	if m.on.Load() && o.TaskID == "r-S000" {
		panic("nobody can say that")
	}
	return m.Sender.Order(ctx, storeID, terminalID, o)
}

// stuck panics over the lease of one task, while on.
type stuck struct {
	*leases
	pausing, resuming atomic.Bool
}

func (s *stuck) Pause(taskID string, attempt int) {
	if s.pausing.Load() && taskID == "r-S000" {
		panic("nobody can pause that")
	}
	s.leases.Pause(taskID, attempt)
}

func (s *stuck) Resume(taskID string, attempt int) {
	if s.resuming.Load() && taskID == "r-S000" {
		panic("nobody can resume that")
	}
	s.leases.Resume(taskID, attempt)
}

// shaky is a desk whose orders, leases and clock can break.
type shaky struct {
	*desk
	timeless atomic.Bool
	mute     *mute
	stuck    *stuck
	alarms   steptest.Alarms
}

func openShaky(t *testing.T) *shaky {
	t.Helper()
	s := &shaky{desk: &desk{t: t, leases: &leases{}}}
	s.Bench = steptest.New(t, func(changes []store.Change) { s.Changed(changes) })
	s.mute, s.stuck = &mute{Sender: s.Sender}, &stuck{leases: s.leases}
	s.Intake = intake.New(intake.Config{Tasks: s.Store, Attempts: s.desk, Jobs: registry(t), Leases: s.stuck, Orders: s.mute,
		Now: s.now, Logger: s.Logger, InFlight: 1, BurstBytes: 1, Alarm: s.alarms.Raise,
		Ward: &quarantine.Ward{Logger: s.Logger, Now: time.Now, Alarm: s.alarms.Raise}})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Intake.Stop)
	return s
}

func (s *shaky) now() time.Time {
	if s.timeless.Load() {
		panic("nobody can tell the time")
	}
	return time.Now()
}

const ofTheTurn = "step_panicked the turn of task r-S000, terminal S000/pos: headquarters panicked: nobody can "

// A turn that makes headquarters panic is told and taken back at once, with its
// lease; the next has it. It comes once the fault is mended and it is announced
// again.
func TestATurnThatPanicsIsTakenBackAndHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openShaky(t)
		s.run(2)
		s.mute.on.Store(true)
		for range 3 {
			s.ready(0, 100<<10)
			synctest.Wait()
		}
		if told, got := s.alarms.Told(), s.Stats(); told != ofTheTurn+"say that" || got.InFlight+got.Waiting != 0 || s.leases.isPaused("r-S000") {
			t.Errorf("%+v, alarms %s", got, told)
		}
		s.ready(1, 100<<10)
		if calls := fmt.Sprint(s.calls()); calls != "[S001]" {
			t.Errorf("called for %s", calls)
		}
		s.send(1, success(1, 1, large(100)))
		s.mute.on.Store(false)
		s.ready(0, 100<<10)
		if calls := fmt.Sprint(s.calls()); calls != "[S001 S000]" {
			t.Errorf("called for %s once the fault is mended", calls)
		}
	})
}

func TestALeaseThatPanicsHoldsUpNoOtherTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openShaky(t)
		s.run(2)
		s.ready(0, 100<<10)
		synctest.Wait()
		s.ready(1, 100<<10)
		s.stuck.resuming.Store(true)
		time.Sleep(11 * time.Second) // it says nothing
		if told, calls := s.alarms.Told(), fmt.Sprint(s.calls()); told != ofTheTurn+"resume that" || calls != "[S000 S001]" {
			t.Errorf("called for %s, alarms %s", calls, told)
		}
		s.stuck.pausing.Store(true)
		s.ready(0, 100<<10)
		if told := s.alarms.Told(); !strings.HasPrefix(told, "message_panicked S000/pos: ") {
			t.Errorf("alarms %s", told)
		}
		s.send(1, success(1, 1, large(100)))
		s.Offline("S000", "pos")
		if got := s.Stats(); got.InFlight+got.Waiting != 0 || got.Accepted != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// A look at the line that makes headquarters panic is told, and turns are given again
// soon.
func TestALookAtTheLineThatPanicsEndsNoTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openShaky(t)
		s.run(2)
		s.ready(0, 100<<10)
		synctest.Wait()
		s.ready(1, 100<<10)
		s.timeless.Store(true)
		time.Sleep(11 * time.Second) // it says nothing, which is to be logged
		if told := s.alarms.Told(); told != "step_panicked the turns of results: headquarters panicked: nobody can tell the time" {
			t.Errorf("alarms %s", told)
		}
		s.timeless.Store(false)
		time.Sleep(5 * time.Second)
		if calls := fmt.Sprint(s.calls()); calls != "[S000 S001]" {
			t.Errorf("called for %s", calls)
		}
	})
}
