package offer_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"muster/dispatcher/internal/offer"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// TestOffersThatAreMadeAheadAreThoseThatTheStoreHas, and cost it no list.
func TestOffersThatAreMadeAheadAreThoseThatTheStoreHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.foresee()
		synctest.Wait()
		lists := d.tasks.ended.Load()
		d.Create("r", 300, steptest.Policy())
		synctest.Wait()
		if d.tasks.ended.Load() != lists {
			t.Error("the store is asked for what was just put into it")
		}
		first := d.Broker.Sent()
		d.Broker.Forget()
		d.Republish("")
		synctest.Wait()
		second := map[string]steptest.Sent{}
		for _, s := range d.Broker.Sent() {
			second[s.Topic] = s
		}
		if len(first) != 300 || len(second) != 300 {
			t.Fatalf("%d and %d are offered", len(first), len(second))
		}
		for _, s := range first {
			again := second[s.Topic]
			if a, b := unframed(t, s.Payload), unframed(t, again.Payload); !bytes.Equal(a, b) || s.Retain != again.Retain || s.Expiry != again.Expiry {
				t.Fatalf("made ahead %s\nfrom the store %s", a, b)
			}
		}
	})
}

// unframed is an offer without what differs each time.
func unframed(t *testing.T, payload []byte) []byte {
	t.Helper()
	var o protocol.Offer
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &o); err != nil {
		t.Fatal(err)
	}
	o.Seq = 0
	doc, err := protocol.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestNothingIsOfferedOfARunThatIsNotCommitted, however much was made ahead.
func TestNothingIsOfferedOfARunThatIsNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.foresee()
		var overs []func(bool)
		for range 3 {
			overs = append(overs, d.Ahead(store.Run{RunID: "x", Policy: steptest.Policy(), MakeupUntil: time.Now().Add(time.Hour)},
				[]store.NewTask{{TaskID: "x-S000", StoreID: "S000"}, {TaskID: "x-S001", StoreID: "S001"}}))
		}
		synctest.Wait()
		for _, over := range overs {
			over(false)
		}
		d.Changed([]store.Change{{Kind: store.RunCreated, RunID: "x", Run: &store.Run{RunID: "x"}}})
		synctest.Wait()
		if sent := d.Broker.Sent(); len(sent) > 0 {
			t.Errorf("%d published, the first on %s", len(sent), sent[0].Topic)
		}
	})
}

// TestMoreTasksThanAreMadeAheadAreAllOffered, and each once.
func TestMoreTasksThanAreMadeAheadAreAllOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.foresee()
		d.Create("r", 9000, steptest.Policy())
		synctest.Wait()
		topics := map[string]bool{}
		for _, s := range d.Broker.Sent() {
			topics[s.Topic] = true
		}
		if got := len(d.Broker.Sent()); got != 9000 || len(topics) != 9000 {
			t.Errorf("%d published for %d of 9000", got, len(topics))
		}
	})
}

// TestWhatMovesBeforeItsTurnIsNotOfferedAsItWasCreated: the run's turn comes after a
// list that takes a second, and a task is over by then.
func TestWhatMovesBeforeItsTurnIsNotOfferedAsItWasCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.Open(t, filepath.Join(t.TempDir(), "muster.db"), d.changed)
		d.Offers = offer.New(offer.Config{Tasks: &slowList{Store: d.Store}, Sender: d.Sender, Online: func(string) bool { return false }, Now: time.Now, Logger: d.Logger})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Offers.Stop()
		d.foresee()
		synctest.Wait() // the list of the start is being read
		d.Create("r", 3, steptest.Policy())
		d.cancel("S001")
		synctest.Wait()
		if sent := d.Broker.Sent(); len(sent) != 1 || sent[0].Topic != topic(1) {
			t.Fatalf("%d published before the turn of the run", len(sent))
		}
		time.Sleep(2 * time.Second)
		for i := range 3 {
			if open := d.retained(i) != nil; open != (i != 1) {
				t.Errorf("store %d: offered %t", i, open)
			}
		}
	})
}

// TestAWaveThatABrokerCutsOffIsOfferedWhenItIsBack, and holds nobody up.
func TestAWaveThatABrokerCutsOffIsOfferedWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		d.foresee()
		synctest.Wait()
		d.Broker.Break(errors.New("down"))
		d.Create("r", 6000, steptest.Policy())
		began := time.Now()
		d.Rush(t.Context())
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("others wait %v for a broker that is down", waited)
		}
		d.cancel("S001")
		time.Sleep(time.Minute)
		d.Broker.Break(nil)
		time.Sleep(time.Minute)
		for _, i := range []int{0, 1, 2, 5999} {
			if open := d.retained(i) != nil; open != (i != 1) {
				t.Errorf("store %d: offered %t", i, open)
			}
		}
	})
}

// TestTheTasksOfARunThatIsOfferedAreForgotten: there may be many, and no other run.
func TestTheTasksOfARunThatIsOfferedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		synctest.Wait() // the list of the start is read
		kept := d.offerOne()
		synctest.Wait()
		d.Rush(t.Context())
		time.Sleep(time.Second)
		runtime.GC()
		if kept.Value() != nil {
			t.Error("they are kept")
		}
		if sent := len(d.Broker.Sent()); sent != 1 {
			t.Errorf("%d offers", sent)
		}
	})
}

// offerOne has a run of one task offered, and returns where that was.
func (d *desk) offerOne() weak.Pointer[store.NewTask] {
	run := store.Run{RunID: "x", Policy: steptest.Policy(), BarrierAt: time.Now().Add(time.Minute), MakeupUntil: time.Now().Add(time.Hour)}
	tasks := []store.NewTask{{TaskID: "x-S000", StoreID: "S000"}}
	over := d.Ahead(run, tasks)
	synctest.Wait()
	over(true)
	d.Changed([]store.Change{{Kind: store.RunCreated, RunID: "x", Run: &run}})
	return weak.Make(&tasks[0])
}

// TestOthersWaitForTheOffersOfANewRun, for those alone and not for long.
func TestOthersWaitForTheOffersOfANewRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.Open(t, filepath.Join(t.TempDir(), "muster.db"), d.changed)
		slow := slowly{d.Sender}
		d.Offers = offer.New(offer.Config{Tasks: d.Store, Sender: slow, Online: func(string) bool { return true }, Now: time.Now, Logger: d.Logger})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Offers.Stop()
		d.foresee()
		synctest.Wait() // the list of the start is read
		wait := func() time.Duration {
			began := time.Now()
			d.Rush(t.Context())
			return time.Since(began)
		}
		if got := wait(); got != 0 {
			t.Errorf("waits %v for no run", got)
		}
		d.Create("r", 16, steptest.Policy())
		synctest.Wait()
		if got := wait(); got < 10*time.Millisecond || got > 160*time.Millisecond {
			t.Errorf("waits %v", got)
		}
		if got, sent := wait(), len(d.Broker.Sent()); got != 0 || sent != 16 {
			t.Errorf("waits %v more, %d are out", got, sent)
		}
		d.Create("more", 16_000, steptest.Policy())
		synctest.Wait()
		if got := wait(); got != 500*time.Millisecond {
			t.Errorf("waits %v for many", got)
		}
	})
}

// slowly takes 10 ms for each offer.
type slowly struct{ *transport.Sender }

func (s slowly) Send(ctx context.Context, out transport.Outbound) error {
	time.Sleep(10 * time.Millisecond)
	return s.Sender.Send(ctx, out)
}
