package watch_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/watch"
	"muster/internal/protocol"
	"muster/internal/task"
)

// stateKept is how long the state of a closed run stands.
const stateKept = 7 * 24 * time.Hour

// desk is a watch over a bench.
type desk struct {
	*steptest.Bench
	*watch.Watch
	hears atomic.Pointer[watch.Watch] // what the store tells
}

// use lets w take the place of the watch, as after a restart.
func (d *desk) use(w *watch.Watch) {
	d.Watch = w
	d.hears.Store(w)
}

func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{}
	d.Bench = steptest.New(t, func(changes []store.Change) { d.hears.Load().Changed(changes) })
	d.use(watch.New(d.Store, d.Sender, func(string) int { return 7 }, nil, d.Logger))
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return d
}

func state(t *testing.T, d *desk, runID string) (s protocol.RunStateReport) {
	t.Helper()
	payload := d.Broker.Retained(d.Sender.Topics().Run(runID, protocol.RunState))
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatalf("state %q: %v", payload, err)
	}
	return s
}

func TestStateFollowsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Create("R1", 3, steptest.Policy())
		time.Sleep(2 * time.Second)
		first := state(t, d, "R1")
		if first.Phase != protocol.PhaseCollecting || first.Targets != 3 || first.Waiting != 7 ||
			first.Tasks[task.Pending] != 3 {
			t.Errorf("after the start: %+v", first)
		}
		if _, _, err := d.Store.Cancel(t.Context(), "R1", []string{"S001"}, task.ReasonByUser, "wang", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if s := state(t, d, "R1"); s.Tasks[task.Cancelled] != 1 || s.Tasks[task.Pending] != 2 {
			t.Errorf("after a cancel: %+v", s)
		}
		if _, err := d.Store.CloseRun(t.Context(), "R1", task.ReasonExpired, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if s := state(t, d, "R1"); s.Phase != protocol.PhaseClosed || s.Tasks[task.Cancelled] != 3 {
			t.Errorf("after the close: %+v", s)
		}
		d.Stop()
	})
}

func TestManyChangesMakeFewStatesAndEveryEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stores = 200
		d := open(t)
		d.Create("R1", stores, steptest.Policy())
		for i := range stores {
			if _, _, err := d.Store.Cancel(t.Context(), "R1", []string{steptest.StoreID(i)}, task.ReasonByUser, "wang", time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		states, events, lines := 0, map[string]bool{}, 0
		for _, sent := range d.Broker.Sent() {
			switch {
			case sent.Address.RunKind == protocol.RunState:
				states++
			case sent.Address.RunKind == protocol.RunText:
				lines++
			case sent.Address.Store != "":
				var e protocol.StoreEvent
				if err := json.Unmarshal(sent.Payload, &e); err != nil || e.Event != "cancelled" || e.Status != task.Cancelled {
					t.Fatalf("event %s: %v", sent.Payload, err)
				}
				events[e.StoreID] = true
			}
		}
		if states > 4 || len(events) != stores || lines != 1 {
			t.Errorf("%d states, %d stores with an event, %d lines", states, len(events), lines)
		}
		d.Stop()
	})
}

func TestABrokerThatFailsIsOvertakenByTheNextState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Broker.Break(errors.New("the broker is away"))
		d.Create("R1", 1, steptest.Policy())
		time.Sleep(2 * time.Second)
		d.Broker.Break(nil)
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if s := state(t, d, "R1"); s.Targets != 1 {
			t.Errorf("state %+v", s)
		}
		d.Stop()
		d.Stop()
	})
}

// TestTheEndOfARunIsSaidAgain: headquarters dies between the close and its state, or
// the broker is away just then, and the older state would stand for good.
func TestTheEndOfARunIsSaidAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Create("R1", 1, steptest.Policy())
		time.Sleep(2 * time.Second)
		d.Broker.Break(errors.New("the broker is away"))
		if _, err := d.Store.CloseRun(t.Context(), "R1", task.ReasonExpired, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		d.Broker.Break(nil)
		if s := state(t, d, "R1"); s.Phase != protocol.PhaseCollecting {
			t.Fatalf("what stands is %+v", s)
		}
		keptFor := func(want time.Duration) {
			t.Helper()
			time.Sleep(2 * time.Second)
			s, sent := state(t, d, "R1"), d.Broker.Sent()
			last := sent[len(sent)-1]
			if s.Phase != protocol.PhaseClosed || last.Address.RunKind != protocol.RunState || last.Expiry.Round(time.Minute) != want {
				t.Errorf("state %+v, kept for %v, want %v", s, last.Expiry, want)
			}
		}
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		keptFor(stateKept)
		for away, want := range map[time.Duration]time.Duration{24 * time.Hour: stateKept - 24*time.Hour, 30 * 24 * time.Hour: time.Minute, -time.Hour: stateKept} {
			d.Stop()
			d.Broker.Forget()
			later := transport.NewSender(d.Broker, d.Sender.Topics(), func() time.Time { return time.Now().Add(away) })
			d.use(watch.New(d.Store, later, func(string) int { return 7 }, nil, d.Logger))
			if err := d.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			keptFor(want)
		}
		d.Stop()
	})
}

func TestLinesNameTheRun(t *testing.T) {
	t.Parallel()
	run := &store.Run{RunID: "R1", Job: "collect_log", Targets: 12, BarrierAt: time.Date(2026, 9, 17, 7, 32, 0, 0, time.UTC)}
	cases := map[store.ChangeKind]string{
		store.RunCreated:    "Run R1 started: collect_log at 12 stores, the report comes at 2026-09-17T07:32:00Z.",
		store.RevisionReady: "Run R1: revision 2 of the report is ready.",
		store.RunClosed:     "Run R1 is closed: nothing more is taken in.",
		store.TaskMoved:     "",
	}
	for kind, want := range cases {
		if got := watch.Line(store.Change{Kind: kind, RunID: "R1", Run: run, Revision: 2}); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
	run.ApprovedBy = "chen"
	want := "Run R1 started: collect_log at 12 stores, approved by chen, the report comes at 2026-09-17T07:32:00Z."
	if got := watch.Line(store.Change{Kind: store.RunCreated, RunID: "R1", Run: run}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
