package offer_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/offer"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/transport"
)

// poisoned panics over one topic, whether it is published or cleared, while on.
type poisoned struct {
	*transport.Sender
	topic string
	on    atomic.Bool
}

func (p *poisoned) Send(ctx context.Context, out transport.Outbound) error {
	if p.on.Load() && out.Topic == p.topic {
		panic("an offer that nobody can make")
	}
	return p.Sender.Send(ctx, out)
}

// ward is one that writes its alarms down.
func ward(b *steptest.Bench) (w *quarantine.Ward, alarms func() []string) {
	var mu sync.Mutex
	var told []string
	w = &quarantine.Ward{Logger: b.Logger, Now: time.Now, Alarm: func(kind, subject string, trouble error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, kind+" "+subject+": "+trouble.Error())
	}}
	return w, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
}

// An offer that makes headquarters panic holds up none of the others, is told,
// and comes once the fault is mended; so does its withdrawal.
func TestAnOfferThatPanicsStopsNoOtherAndComesWhenItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.New(t, d.changed)
		p := &poisoned{Sender: d.Sender, topic: topic(0)}
		p.on.Store(true)
		w, alarms := ward(d.Bench)
		d.Offers = offer.New(offer.Config{Tasks: d.Store, Sender: p, Online: func(string) bool { return true },
			Now: time.Now, Logger: d.Logger, Ward: w})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Offers.Stop()
		synctest.Wait() // the list of the start has seen no run
		d.Create("r", 200, steptest.Policy())
		synctest.Wait()
		if got := len(d.Broker.Sent()); got != 199 {
			t.Errorf("%d of the other 199 are offered at once", got)
		}
		if told := alarms(); len(told) != 1 || told[0] != "step_panicked the offer of task r-S000 of store S000: headquarters panicked: an offer that nobody can make" {
			t.Errorf("alarms %q", told)
		}
		time.Sleep(50 * time.Second) // and with each list and try again
		if told := alarms(); len(told) != 1 {
			t.Errorf("it is told %d times in a minute", len(told))
		}
		p.on.Store(false)
		time.Sleep(20 * time.Second)
		if d.retained(0) == nil {
			t.Error("it is not offered when the fault is mended")
		}
		p.on.Store(true)
		d.cancel()
		synctest.Wait()
		if d.retained(0) == nil || d.retained(1) != nil {
			t.Error("the others are not withdrawn")
		}
		p.on.Store(false)
		time.Sleep(20 * time.Second)
		if d.retained(0) != nil {
			t.Error("it is not withdrawn when the fault is mended")
		}
	})
}

// A list that makes headquarters panic is told and begun again.
func TestAListThatPanicsIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.New(t, d.changed)
		var left atomic.Int64
		left.Store(5)
		d.tasks = &tasks{Store: d.Store, listed: func(taskID string) {
			if taskID == steptest.TaskID("r", 1) && left.Add(-1) >= 0 {
				panic("a row that nobody can read")
			}
		}}
		w, alarms := ward(d.Bench)
		d.Offers = offer.New(offer.Config{Tasks: d.tasks, Sender: d.Sender, Online: func(string) bool { return false },
			Now: time.Now, Logger: d.Logger, Ward: w})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Offers.Stop()
		synctest.Wait() // the list of the start has seen no run
		d.Create("r", 3, steptest.Policy())
		time.Sleep(10 * time.Second)
		for i := range 3 {
			if d.retained(i) == nil {
				t.Errorf("store %d has no offer", i)
			}
		}
		if told := alarms(); len(told) != 1 || !strings.Contains(told[0], `listing what is open of run "r"`) {
			t.Errorf("alarms %q", told)
		}
	})
}
