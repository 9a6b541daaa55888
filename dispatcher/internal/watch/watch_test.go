package watch_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
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
	zone := time.FixedZone("Asia/Shanghai", 8*3600)
	run := &store.Run{RunID: "R1", Job: "collect_log", Targets: 12, RequestedBy: "wang", BarrierAt: time.Date(2026, 9, 17, 7, 32, 0, 0, time.UTC)}
	one := *run
	one.Targets, one.ApprovedBy, one.ParentRun = 1, "chen", "R0"
	for _, c := range []struct {
		change store.Change
		want   string
	}{
		{store.Change{Kind: store.RunCreated, Run: run}, "Run R1 started: collect_log at 12 stores, asked for by wang. The report comes at 2026-09-17 15:32:00 +08:00, or as soon as all have answered.\n" +
			"批次 R1 已开始：作业 collect_log，12 家门店，由 wang 发起。报告将于 2026-09-17 15:32:00 +08:00 生成，全部完成则提前。"},
		{store.Change{Kind: store.RunCreated, Run: &one}, "Run R1 started: collect_log at 1 store, asked for by wang, approved by chen, a retry of run R0. The report comes at 2026-09-17 15:32:00 +08:00, or as soon as all have answered.\n" +
			"批次 R1 已开始：作业 collect_log，1 家门店，由 wang 发起，chen 批准，重试批次 R0。报告将于 2026-09-17 15:32:00 +08:00 生成，全部完成则提前。"},
		{store.Change{Kind: store.RevisionReady, Revision: 1}, "Run R1: the barrier is closed, the report is being written.\n批次 R1：已截止，正在生成报告。"},
		{store.Change{Kind: store.RevisionReady, Revision: 2}, "Run R1: more answers came in, revision 2 of the report is being written.\n批次 R1：收到新的结果，正在生成第 2 版报告。"},
		{store.Change{Kind: store.RunClosed, Run: run}, "Run R1 is closed: only a retry can change its report now.\n批次 R1 已关闭：此后只有重试会更新其报告。"},
		{store.Change{Kind: store.TaskMoved}, "\n"},
	} {
		c.change.RunID = "R1"
		if got := watch.Tell(c.change, zone).String(); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}

// said are the lines of R1 that tell how far it is.
func said(d *desk) (list []string) {
	for _, sent := range d.Broker.Sent() {
		if en, _, _ := strings.Cut(string(sent.Payload), "\n"); sent.Topic == d.Sender.Topics().Run("R1", protocol.RunText) && strings.Contains(en, " done, ") {
			list = append(list, en)
		}
	}
	return list
}

// TestEachQuarterIsToldOnce also after a restart, and not once the barrier is closed.
func TestEachQuarterIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.Create("R1", 12, steptest.Policy())
		want := []string{"Run R1: a quarter done, 3 of 12 stores: 0 succeeded, 3 cancelled; online now: 0.",
			"Run R1: half done, 6 of 12 stores: 0 succeeded, 6 cancelled; online now: 0.",
			"Run R1: three quarters done, 9 of 12 stores: 0 succeeded, 9 cancelled; online now: 0."}
		step := func(from, to int) {
			for i := from; i < to; i++ {
				cancel(t, d, i)
			}
			time.Sleep(2 * time.Second)
		}
		for i := range 6 {
			step(i, i+1)
		}
		if got := said(d); !slices.Equal(got, want[:2]) {
			t.Fatalf("got %q", got)
		}
		d.Stop()
		d.use(watch.New(d.Store, d.Sender, func(string) int { return 7 }, nil, d.Logger))
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		step(6, 8)
		step(8, 9)
		step(9, 12)
		if got := said(d); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		d.Stop()
	})
}
