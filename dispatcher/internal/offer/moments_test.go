package offer_test

import (
	"context"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/offer"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// sentFor counts what was published for the i-th store.
func (d *desk) sentFor(i int) (n int) {
	d.t.Helper()
	synctest.Wait()
	for _, s := range d.Broker.Sent() {
		if s.Topic == topic(i) {
			n++
		}
	}
	return n
}

func TestAnOfferNamesTheTerminalThatItIsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.Address("pos1").Create("r", 1, steptest.Policy())
		if o := d.retained(0); o == nil || o.TerminalID != "pos1" {
			t.Errorf("offered %+v", o)
		}
	})
}

// TestAGrantPublishesNoOffer: what runs is not to be claimed.
func TestAGrantPublishesNoOffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.Create("r", 1, steptest.Policy())
		synctest.Wait()
		d.Broker.Forget()
		d.grant(0)
		time.Sleep(time.Second)
		if n := d.sentFor(0); n != 0 {
			t.Errorf("%d published", n)
		}
	})
}

// TestWhatIsOverIsWithdrawnWhateverIsAsked: an offer whose time is over, and one of
// a task that the store does not know.
func TestWhatIsOverIsWithdrawnWhateverIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		run := d.Create("r", 1, steptest.Policy())
		if d.retained(0) == nil {
			t.Fatal("not offered")
		}
		time.Sleep(time.Until(run.MakeupUntil))
		d.Republish("")
		if o := d.retained(0); o != nil {
			t.Errorf("still offered: %+v", o)
		}
		d.Broker.Forget()
		d.Changed([]store.Change{{Kind: store.TaskMoved, RunID: "r", Task: &store.Task{TaskID: "r-S001", RunID: "r", StoreID: "S001",
			State: task.State{Status: task.Pending}}}})
		time.Sleep(time.Minute)
		if n := d.sentFor(1); n != 1 || d.retained(1) != nil {
			t.Errorf("an unknown task: %d published, %+v retained", n, d.retained(1))
		}
	})
}

// TestAnOfferHasTimeToBeAnswered before it is made again; one from before the clock
// was set back has had it.
func TestAnOfferHasTimeToBeAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		var ahead atomic.Int64
		d.Bench = steptest.New(t, func(changes []store.Change) { d.Changed(changes) })
		d.Offers = offer.New(offer.Config{Tasks: d.Store, Sender: d.Sender, Online: func(string) bool { return true },
			Now: func() time.Time { return time.Now().Add(-time.Duration(ahead.Load())) }, Logger: d.Logger})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Offers.Stop()
		time.Sleep(15 * time.Second)
		d.Create("r", 1, steptest.Policy())
		time.Sleep(6 * time.Second) // one look went by
		if n := d.sentFor(0); n != 1 {
			t.Errorf("offered %d times within 6 s", n)
		}
		ahead.Store(int64(time.Hour))
		time.Sleep(20 * time.Second)
		if n := d.sentFor(0); n != 2 {
			t.Errorf("offered %d times, and the clock was set back", n)
		}
	})
}

// slowList takes a second for each list, and counts them.
type slowList struct {
	*store.Store
	lists atomic.Int64
}

func (s *slowList) OpenTasks(ctx context.Context, runID, storeID string) iter.Seq2[store.Task, error] {
	s.lists.Add(1)
	time.Sleep(time.Second)
	return s.Store.OpenTasks(ctx, runID, storeID)
}

func TestWhatIsAskedForTwiceIsListedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.Open(t, filepath.Join(t.TempDir(), "muster.db"), func(changes []store.Change) { d.Changed(changes) })
		s := &slowList{Store: d.Store}
		d.Offers = offer.New(offer.Config{Tasks: s, Sender: d.Sender, Online: func(string) bool { return false }, Now: time.Now, Logger: d.Logger})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Offers.Stop()
		synctest.Wait() // the first list is being read
		for range 10 {
			d.Republish("")
			d.Republish("S001")
		}
		time.Sleep(15 * time.Second)
		if n := s.lists.Load(); n != 3 {
			t.Errorf("%d lists, want the first, one more, and one of the store", n)
		}
	})
}
