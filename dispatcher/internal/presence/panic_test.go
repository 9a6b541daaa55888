package presence_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// brittle panics over S000 in all that is stored, asked and told of it, and over
// every sign of life, while on.
type brittle struct {
	*store.Store
	*transport.Sender
	on     atomic.Bool
	beats  atomic.Int64
	alarms steptest.Alarms
}

func (b *brittle) crack(storeID string) {
	if b.on.Load() && storeID == "S000" {
		panic("nobody can do that")
	}
}

func (b *brittle) SetPresence(ctx context.Context, t store.Terminal, now time.Time) (bool, error) {
	b.crack(t.StoreID)
	return b.Store.SetPresence(ctx, t, now)
}

func (b *brittle) Beat(ctx context.Context, now time.Time) error {
	b.crack("S000")
	b.beats.Add(1)
	return b.Store.Beat(ctx, now)
}

func (b *brittle) Order(ctx context.Context, storeID, terminalID string, o protocol.Order) error {
	b.crack(storeID)
	return b.Sender.Order(ctx, storeID, terminalID, o)
}

func (b *brittle) Offline(storeID, _ string) { b.crack(storeID) }

func openBrittle(t *testing.T, announce bool) (*desk, *brittle) {
	d := &desk{t: t, Bench: steptest.New(t)}
	b := &brittle{Store: d.Store, Sender: d.Sender}
	keep := func(kind, subject string, trouble error) {
		if trouble == nil {
			b.crack(strings.TrimSuffix(subject, "/pos"))
		}
		b.alarms.Raise(kind, subject, trouble)
	}
	d.Presence = presence.New(presence.Config{Terminals: b, Tasks: d.Store, Sender: d.Sender, Orders: b,
		Listeners: []presence.Listener{b, d}, Republish: func(string) {}, Announce: announce, Now: d.now, Logger: d.Logger,
		Alarm: keep, Ward: &quarantine.Ward{Logger: d.Logger, Now: time.Now, Alarm: keep}})
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Presence.Stop)
	synctest.Wait()
	return d, b
}

const (
	broken    = ": headquarters panicked: nobody can do that"
	ofS000    = "step_panicked terminal S000/pos" + broken
	ofTheBeat = "step_panicked the sign of life of headquarters" + broken
)

func (d *desk) connect(online bool, stores ...string) {
	for _, id := range stores {
		d.Session(transport.Session{StoreID: id, TerminalID: "pos", SessionID: "a", Online: online, At: time.Now()})
	}
}

func (d *desk) isStored(storeID string) (known, online bool) {
	d.t.Helper()
	synctest.Wait()
	all, err := d.Store.ListTerminals(d.t.Context(), storeID)
	if err != nil {
		d.t.Fatal(err)
	}
	return len(all) == 1, len(all) == 1 && all[0].Online
}

// A terminal that makes headquarters panic is told and tried again; the others
// are stored at once, and so is it once the fault is mended.
func TestATerminalThatPanicsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := openBrittle(t, true)
		b.on.Store(true)
		d.connect(true, "S000", "S001")
		if known, _ := d.isStored("S000"); known {
			t.Error("the fault is none")
		}
		if _, online := d.isStored("S001"); !online {
			t.Error("the other one is not stored")
		}
		d.connect(true, "S002")
		if _, online := d.isStored("S002"); !online {
			t.Error("who comes next waits")
		}
		if told := b.alarms.Told(); told != ofS000 {
			t.Errorf("alarms %s", told)
		}
		time.Sleep(21 * time.Second)
		if told := b.alarms.Told(); told != ofTheBeat {
			t.Errorf("alarms %s", told)
		}
		d.connect(false, "S000", "S001")
		if _, online := d.isStored("S001"); online || fmt.Sprint(d.away) != "[S000/pos S001/pos]" {
			t.Errorf("told as away: %v", d.away)
		}
		b.on.Store(false)
		beats := b.beats.Load()
		time.Sleep(11 * time.Second)
		if known, online := d.isStored("S000"); !known || online {
			t.Error("it is not stored when the fault is mended")
		}
		if b.beats.Load() == beats {
			t.Error("headquarters does not note that it is alive")
		}
	})
}

func TestAQuestionThatPanicsHoldsUpNoOtherAndIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := openBrittle(t, false)
		for i := range 3 {
			if err := d.HandlePresence(t.Context(), steptest.From(i, protocol.KindPresence), steptest.Message(birth("a"))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		b.on.Store(true)
		time.Sleep(1500 * time.Millisecond)
		if told, n := b.alarms.Told(), len(d.Broker.Orders(protocol.OrderSync)); told != ofS000 || n != 2 {
			t.Errorf("%d of the others are asked, alarms %s", n, told)
		}
		b.on.Store(false)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if n := len(d.Broker.Orders(protocol.OrderSync)); n != 5 {
			t.Errorf("%d questions once the fault is mended", n)
		}
	})
}

func TestTheEndOfATwinThatPanicsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := openBrittle(t, true)
		for i := range 2 {
			for _, instance := range []string{"A", "B", "A"} {
				m := steptest.Message(protocol.Hello{Meta: protocol.Meta{ID: "h"}, Instance: instance})
				if err := d.HandleHello(t.Context(), steptest.From(i, protocol.KindHello), m); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.alarms.Told()
		time.Sleep(14 * time.Minute)
		b.on.Store(true)
		time.Sleep(2 * time.Minute)
		if told := b.alarms.Told(); !strings.Contains(told, ofS000) || !strings.Contains(told, "S001/pos: <nil>") {
			t.Errorf("alarms %s", told)
		}
	})
}

// A look for twins that panics is told, and headquarters notes on that it is alive.
func TestALookForTwinsThatPanicsIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := openBrittle(t, true)
		d.Spoil()
		beats := b.beats.Load()
		time.Sleep(time.Minute)
		if told := b.alarms.Told(); !strings.HasPrefix(told, "step_panicked the ends of alarms about twins: headquarters panicked: ") {
			t.Errorf("alarms %s", told)
		}
		if b.beats.Load() == beats {
			t.Error("headquarters does not note that it is alive")
		}
	})
}
