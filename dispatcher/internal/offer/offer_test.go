package offer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/offer"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

// desk is the offers over a bench.
type desk struct {
	*steptest.Bench
	*offer.Offers
	t      testing.TB
	tasks  *tasks
	online atomic.Bool
}

// tasks lets a test act while a list is read.
type tasks struct {
	*store.Store
	listed func(taskID string)
	ended  atomic.Int64 // lists that were read to their end
}

func (s *tasks) OpenTasks(ctx context.Context, runID, storeID string) iter.Seq2[store.Task, error] {
	return func(yield func(store.Task, error) bool) {
		for t, err := range s.Store.OpenTasks(ctx, runID, storeID) {
			if s.listed != nil {
				s.listed(t.TaskID)
			}
			if !yield(t, err) {
				return
			}
		}
		s.ended.Add(1)
	}
}

func open(t testing.TB, path string) *desk {
	t.Helper()
	d := &desk{t: t}
	if path == "" {
		path = filepath.Join(t.TempDir(), "muster.db")
	}
	d.Bench = steptest.Open(t, path, d.changed)
	d.tasks = &tasks{Store: d.Store}
	d.Offers = offer.New(offer.Config{Tasks: d.tasks, Sender: d.Sender, Online: func(string) bool { return d.online.Load() },
		Now: time.Now, Logger: d.Logger})
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Offers.Stop)
	return d
}

// changed is Changed of the offers that there are by then.
func (d *desk) changed(changes []store.Change) { d.Changed(changes) }

// foresee has offers made ahead from now on.
func (d *desk) foresee() {
	d.Store.Foresee(func(run store.Run, tasks []store.NewTask) func(bool) { return d.Ahead(run, tasks) })
}

func topic(i int) string {
	return "muster/v1/stores/" + steptest.StoreID(i) + "/tasks/" + steptest.TaskID("r", i)
}

// retained returns the offer that lies on the i-th store's topic, or nil.
func (d *desk) retained(i int) *protocol.Offer {
	d.t.Helper()
	synctest.Wait()
	payload := d.Broker.Retained(topic(i))
	if payload == nil {
		return nil
	}
	var o protocol.Offer
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &o); err != nil {
		d.t.Fatal(err)
	}
	return &o
}

func (d *desk) grant(i int) {
	d.t.Helper()
	g, err := d.Store.Grant(d.t.Context(), store.Grant{TaskID: steptest.TaskID("r", i), StoreID: steptest.StoreID(i),
		TerminalID: "pos", LeaseUntil: time.Now().Add(time.Minute)}, time.Now())
	if err != nil || g.Refusal != "" {
		d.t.Fatalf("cannot grant: %v %s", err, g.Refusal)
	}
}

func (d *desk) settle(i, attempt int, event task.Event, retryAt time.Time) {
	d.t.Helper()
	a := store.Answer{Event: event, RetryAt: retryAt, Attempt: store.Attempt{TaskID: steptest.TaskID("r", i), Attempt: attempt,
		StoreID: steptest.StoreID(i), TerminalID: "pos", Answer: protocol.AnswerFailed, SHA256: "x",
		Failure: &protocol.Failure{Code: protocol.CodeExecution}}}
	if _, err := d.Store.Settle(d.t.Context(), a, time.Now()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) cancel(stores ...string) {
	d.t.Helper()
	if _, _, err := d.Store.Cancel(d.t.Context(), "r", stores, task.ReasonByUser, "tech", time.Now()); err != nil {
		d.t.Fatal(err)
	}
}

func TestARunIsOfferedWithAllThatATerminalNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		run := d.Create("r", 100, steptest.Policy())
		synctest.Wait()
		for i := range 100 {
			if d.retained(i) == nil {
				t.Fatalf("store %d has no offer", i)
			}
		}
		o := d.retained(7)
		if o.TaskID != "r-S007" || o.ParentID != "r" || o.StoreID != "S007" || o.Type != steptest.Job || o.TypeVersion != 1 ||
			string(o.Input) != `{"date":"2026-09-17"}` || o.Status != task.Pending || o.Attempt != 0 || o.Attempts != 2 ||
			o.RunTimeoutMs != 60_000 || o.NotBefore != 0 || o.Deadline != run.BarrierAt.UnixMilli() ||
			o.QueueDeadline != run.MakeupUntil.UnixMilli() || !o.ScheduledFor.Equal(run.CreatedAt) || len(o.ID) != 26 {
			t.Errorf("offered %+v", o)
		}
		for _, s := range d.Broker.Sent() {
			if !s.Retain || s.Expiry != time.Until(run.MakeupUntil) {
				t.Errorf("retained %t for %v", s.Retain, s.Expiry)
			}
		}
	})
}

func TestASettledTaskIsWithdrawnAndARetryOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.Create("r", 3, steptest.Policy())
		first := d.retained(1)
		for i := range 3 {
			d.grant(i)
		}
		due := time.Now().Add(7 * time.Second)
		d.settle(0, 1, task.GiveUp, time.Time{})
		d.settle(1, 1, task.Fail, due)
		if d.retained(0) != nil {
			t.Error("a settled task is still offered")
		}
		o := d.retained(1)
		if o == nil || o.Status != task.Failed || o.Attempt != 1 || o.NotBefore != due.UnixMilli() || o.Error == nil || o.Error.Code != protocol.CodeExecution {
			t.Fatalf("the retry is offered as %+v", o)
		}
		if o.ID == first.ID {
			t.Error("the offer of another attempt has the same id")
		}
		d.cancel()
		for i := range 3 {
			if d.retained(i) != nil {
				t.Errorf("store %d still has an offer of a cancelled run", i)
			}
		}
	})
}

func TestATaskThatIsSettledWhileTheListIsReadEndsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		synctest.Wait()
		cancelled := false
		d.tasks.listed = func(taskID string) {
			if !cancelled {
				cancelled = true
				d.cancel("S000", "S001", "S002") // seen as open by the list, over by now
				time.Sleep(time.Millisecond)     // their withdrawals go out first
			}
		}
		d.Create("r", 5, steptest.Policy())
		synctest.Wait()
		time.Sleep(time.Second)
		for i := range 5 {
			if open := d.retained(i) != nil; open != (i > 2) {
				t.Errorf("store %d: offered %t", i, open)
			}
		}
	})
}

// gated holds every offer back until it is opened.
type gated struct {
	*transport.Sender
	gate chan struct{}
}

func (g gated) Send(ctx context.Context, out transport.Outbound) error {
	<-g.gate
	return g.Sender.Send(ctx, out)
}

func TestWhatMovesWhileItWaitsIsLookedAtAgain(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		t.Run(fmt.Sprintf("made ahead %t", ahead), func(t *testing.T) { whatMovesIsLookedAtAgain(t, ahead) })
	}
}

func whatMovesIsLookedAtAgain(t *testing.T, ahead bool) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.New(t, func(changes []store.Change) { d.Changed(changes) })
		if ahead {
			d.foresee()
		}
		g := gated{d.Sender, make(chan struct{})}
		d.Offers = offer.New(offer.Config{Tasks: d.Store, Sender: g, Online: func(string) bool { return false }, Now: time.Now, Logger: d.Logger})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Offers.Stop()
		d.Create("r", 100, steptest.Policy())
		synctest.Wait() // all lanes hold one offer, the others wait as the list saw them
		for i := range 100 {
			d.grant(i)
			d.settle(i, 1, task.Fail, time.Now().Add(time.Second))
		}
		close(g.gate)
		for i := range 100 {
			if o := d.retained(i); o == nil || o.Status != task.Failed || o.Attempt != 1 {
				t.Fatalf("store %d is offered %+v", i, o)
			}
		}
	})
}

func TestMoreTasksThanWaitAtOnceAreAllOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.Create("r", 5000, steptest.Policy())
		synctest.Wait()
		if got := len(d.Broker.Sent()); got != 5000 {
			t.Errorf("%d of 5000 are offered", got)
		}
	})
}

func TestAtStartEverythingOpenIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		first := open(t, path)
		first.Create("r", 20, steptest.Policy())
		first.cancel("S003")
		id := first.retained(4).ID
		first.Offers.Stop()
		first.Offers.Stop()
		first.Bench.Close()
		d := open(t, path)
		for i := range 20 {
			if open := d.retained(i) != nil; open != (i != 3) {
				t.Errorf("store %d: offered %t", i, open)
			}
		}
		if again := d.retained(4).ID; again != id {
			t.Errorf("the same offer had id %s and has %s", id, again)
		}
		d.Broker.Forget()
		d.Republish("S005")
		synctest.Wait()
		if sent := d.Broker.Sent(); len(sent) != 1 || sent[0].Topic != topic(5) {
			t.Errorf("%d published for one store", len(sent))
		}
	})
}

func TestABrokerThatIsDownLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.Create("r", 50, steptest.Policy())
		synctest.Wait()
		d.Broker.Break(errors.New("down"))
		d.grant(0)
		d.settle(0, 1, task.GiveUp, time.Time{})
		d.cancel("S001", "S002")
		d.Republish("")
		time.Sleep(10 * time.Minute)
		d.Broker.Forget()
		d.Broker.Break(nil)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		withdrawn, offered := map[string]bool{}, map[string]bool{}
		for _, s := range d.Broker.Sent() {
			if len(s.Payload) == 0 {
				withdrawn[s.Topic] = true
			} else {
				offered[s.Topic] = true
			}
		}
		if len(withdrawn) != 3 || len(offered) != 47 || offered[topic(1)] {
			t.Errorf("%d withdrawn, %d offered", len(withdrawn), len(offered))
		}
	})
}

func TestAListDoesNotWaitForABrokerThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		synctest.Wait()
		d.Broker.Break(errors.New("down"))
		before := d.tasks.ended.Load()
		d.Create("r", 5000, steptest.Policy())
		time.Sleep(time.Second)
		synctest.Wait()
		if d.tasks.ended.Load() == before {
			t.Error("the list holds the store's read transaction open")
		}
		d.Broker.Break(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(d.Broker.Sent()); got != 5000 {
			t.Errorf("%d of 5000 are offered", got)
		}
	})
}

// picky refuses one topic.
type picky struct {
	*transport.Sender
	topic string
}

func (p picky) Send(ctx context.Context, out transport.Outbound) error {
	if out.Topic == p.topic {
		return errors.New("this one never works")
	}
	return p.Sender.Send(ctx, out)
}

func TestATopicThatNeverWorksDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bench := steptest.New(t)
		bench.Create("r", 200, steptest.Policy())
		o := offer.New(offer.Config{Tasks: bench.Store, Sender: picky{bench.Sender, topic(0)}, Online: func(string) bool { return false },
			Now: time.Now, Logger: bench.Logger})
		if err := o.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer o.Stop()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := len(bench.Broker.Sent()); got != 199 {
			t.Errorf("%d of the other 199 are offered", got)
		}
	})
}

func TestWhatAnOnlineStoreDoesNotAnswerIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.Create("r", 3, steptest.Policy())
		synctest.Wait()
		d.grant(1)
		if err := d.Store.NoteClaim(t.Context(), "r-S002", time.Now()); err != nil {
			t.Fatal(err)
		}
		d.Broker.Forget()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(d.Broker.Sent()); got != 0 {
			t.Fatalf("%d offered again to stores that are away", got)
		}
		d.online.Store(true)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if sent := d.Broker.Sent(); len(sent) != 1 || sent[0].Topic != topic(0) {
			t.Errorf("%d offered again", len(sent))
		}
	})
}

// TestTheLastWordIsTheNewestState moves tasks in any order, with a broker that
// comes and goes and lists in between, and compares topic and store at the end.
func TestTheLastWordIsTheNewestState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steptest.Bubble(t, rt, func(t *testing.T) {
			d := open(t, "")
			if rapid.Bool().Draw(rt, "ahead") {
				d.foresee()
			}
			n := rapid.IntRange(1, 6).Draw(rt, "stores")
			d.Create("r", n, policyWith(4))
			for range rapid.IntRange(1, 30).Draw(rt, "steps") {
				i := rapid.IntRange(0, n-1).Draw(rt, "store")
				now := d.Task(steptest.TaskID("r", i))
				switch act := rapid.IntRange(0, 6).Draw(rt, "act"); {
				case act == 0 && !now.State.Settled && now.State.Status != task.Running && !time.Now().Before(now.NextAttemptAt):
					d.grant(i)
				case act == 1 && now.State.Status == task.Running:
					event := rapid.SampledFrom([]task.Event{task.Succeed, task.Fail, task.GiveUp}).Draw(rt, "event")
					d.settle(i, now.State.Attempt, event, time.Now().Add(time.Second))
				case act == 2:
					d.cancel(steptest.StoreID(i))
				case act == 3:
					d.Broker.Break(errors.New("down"))
				case act == 4:
					d.Broker.Break(nil)
				case act == 5:
					d.Republish(rapid.SampledFrom([]string{"", steptest.StoreID(i)}).Draw(rt, "list"))
				case act == 6:
					time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
				}
			}
			d.Broker.Break(nil)
			time.Sleep(time.Minute)
			for i := range n {
				want, got := d.Task(steptest.TaskID("r", i)).State, d.retained(i)
				switch {
				case want.Settled != (got == nil):
					steptest.Fail("store %d: the store says %+v, the topic %+v", i, want, got)
				case got != nil && want.Status == task.Failed && (got.Status != want.Status || got.Attempt != want.Attempt):
					steptest.Fail("store %d: the store says %+v, the topic %s %d", i, want, got.Status, got.Attempt)
				}
			}
		})
	})
}

func policyWith(attempts int) (p job.Policy) {
	p = steptest.Policy()
	p.Attempts = attempts
	return p
}

// BenchmarkFanOut offers 50,000 tasks an iteration.
func BenchmarkFanOut(b *testing.B) {
	bench := steptest.New(b)
	bench.Create("r", 50_000, steptest.Policy())
	for b.Loop() {
		var sent atomic.Int64
		o := offer.New(offer.Config{Tasks: bench.Store, Sender: counting{bench.Sender, &sent}, Online: func(string) bool { return false },
			Now: time.Now, Logger: bench.Logger})
		if err := o.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		for sent.Load() < 50_000 {
			time.Sleep(time.Millisecond)
		}
		o.Stop()
	}
	b.ReportMetric(50_000*float64(b.N)/b.Elapsed().Seconds(), "offers/s")
}

type counting struct {
	*transport.Sender
	sent *atomic.Int64
}

func (c counting) Send(context.Context, transport.Outbound) error {
	c.sent.Add(1)
	return nil
}
