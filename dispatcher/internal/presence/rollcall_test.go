package presence_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// questions lists when a terminal was asked for its hello, since from.
func (d *desk) questions(from time.Time) []time.Duration {
	synctest.Wait()
	var at []time.Duration
	for _, s := range d.Broker.Orders(protocol.OrderSync) {
		if s.Order.HelloID == "" {
			if !s.Order.Partial {
				d.t.Error("a question could be taken for an empty list")
			}
			at = append(at, s.At.Sub(from))
		}
	}
	return at
}

func birth(session string) protocol.Presence {
	return protocol.Presence{Online: true, SessionID: session, Since: protocol.At(time.Now())}
}

func TestWhoWasThereFirstIsAskedForItsHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", false)
		from := time.Now()
		d.says(birth("a")) // retained, from before headquarters' start
		time.Sleep(1500 * time.Millisecond)
		if at := d.questions(from); fmt.Sprint(at) != "[1s]" {
			t.Fatalf("asked at %v", at)
		}
		d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
		time.Sleep(10 * time.Minute)
		if at := d.questions(from); len(at) != 1 || !d.Online("S000") {
			t.Errorf("asked at %v, online %t", at, d.Online("S000"))
		}
	})
}

func TestWhoSaysHelloUnaskedIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", false)
		from := time.Now()
		for i, helloFirst := range []bool{false, true} { // they may overtake each other
			if helloFirst {
				d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
			}
			d.says(birth(fmt.Sprint("s", i)))
			time.Sleep(100 * time.Millisecond)
			if !helloFirst {
				d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
			}
			time.Sleep(10 * time.Minute)
		}
		if at := d.questions(from); len(at) != 0 || !d.Online("S000") {
			t.Errorf("asked at %v", at)
		}
	})
}

func TestAfterTheBrokerCameBackEverybodyIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", false)
		d.says(birth("a"))
		d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
		time.Sleep(time.Minute)
		from := time.Now()
		d.Reached()
		time.Sleep(2 * time.Second)
		d.Reached() // a flapping link: the round begins anew
		time.Sleep(5 * time.Second)
		d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
		time.Sleep(10 * time.Minute)
		if at := d.questions(from); fmt.Sprint(at) != "[1s 3s]" || !d.Online("S000") {
			t.Errorf("asked at %v", at)
		}
	})
}

func TestWhoNeverComesBackWithTheBrokerIsOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", false)
		d.says(birth("a"))
		d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
		time.Sleep(time.Minute)
		lost := time.Now()
		d.Reached() // the broker forgot the will with everything else
		time.Sleep(75 * time.Second)
		if !d.Online("S000") {
			t.Fatal("offline too soon")
		}
		time.Sleep(2 * time.Second)
		if at := d.questions(lost); fmt.Sprint(at) != "[1s 16s 31s 46s 1m1s]" {
			t.Errorf("asked at %v", at)
		}
		if got := d.stored(); got.Online || !got.Since.Equal(lost) || d.Online("S000") || fmt.Sprint(d.away) != "[S000/pos]" {
			t.Errorf("stored %+v, told %v", got, d.away)
		}
		d.says(birth("a")) // what a broker kept says nothing new
		time.Sleep(10 * time.Minute)
		if d.Online("S000") || len(d.questions(lost)) != 5 {
			t.Error("a stale birth counts")
		}

		back := time.Now()
		d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}}) // it was only slow
		if got := d.stored(); !got.Online || got.SessionID != "a" || !got.Since.Equal(back) || !d.Online("S000") || d.Count() != 1 {
			t.Errorf("stored %+v", got)
		}
		d.says(protocol.Presence{Online: false, SessionID: "a", Since: protocol.At(time.Now())})
		if got := d.stored(); got.Online || d.Online("S000") || len(d.away) != 2 {
			t.Errorf("stored %+v, told %v", got, d.away)
		}
		d.says(birth("b"))
		d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
		if got := d.stored(); !got.Online || got.SessionID != "b" || d.Count() != 1 {
			t.Errorf("stored %+v", got)
		}
	})
}

// TestAStepOfTheTimeAsksNobodySoonerOrLater, and takes nobody to be gone.
func TestAStepOfTheTimeAsksNobodySoonerOrLater(t *testing.T) {
	for _, by := range []time.Duration{26 * time.Hour, -26 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, "", false)
				from := time.Now()
				d.says(birth("a"))
				for range 5 {
					time.Sleep(5 * time.Second)
					d.off.Add(int64(by))
					d.Reached() // wakes whoever waits, and begins anew
				}
				d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
				d.off.Add(int64(by))
				d.says(birth("b")) // right behind its hello
				time.Sleep(time.Minute)
				if at := d.questions(from); fmt.Sprint(at) != "[1s 6s 11s 16s 21s]" || !d.Online("S000") {
					t.Errorf("asked at %v, online %t", at, d.Online("S000"))
				}
				last := time.Now()
				d.says(birth("c"))
				for range 8 {
					time.Sleep(10 * time.Second)
					d.off.Add(int64(by))
				}
				if at := d.questions(last); fmt.Sprint(at[5:]) != "[1s 16s 31s 46s 1m1s]" || d.Online("S000") {
					t.Errorf("asked at %v, online %t", at, d.Online("S000"))
				}
			})
		})
	}
}

func TestAHelloWithoutAnIdIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", true)
		d.hello(protocol.Hello{AgentVersion: "homemade"})
		if d.Malformed() != 1 || len(d.Broker.Orders(protocol.OrderSync)) != 0 {
			t.Error("its answer asks for a hello, and that one's for another")
		}
	})
}

func TestNobodyIsAskedOverTheEmbeddedBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", true)
		from := time.Now()
		d.session("a", true)
		time.Sleep(10 * time.Minute)
		if at := d.questions(from); len(at) != 0 || !d.Online("S000") {
			t.Errorf("asked at %v", at)
		}
	})
}

func TestALongListIsCutAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", true)
		const open = 5000
		d.Create("r", 1, steptest.Policy())
		now := time.Now()
		run := store.Run{RunID: "big", Job: steptest.Job, JobVersion: 1, RequestedBy: "tech", Input: []byte(`{}`), Policy: steptest.Policy(),
			Targets: 1, CreatedAt: now, BarrierAt: now.Add(time.Minute), MakeupUntil: now.Add(time.Hour)}
		tasks := make([]store.NewTask, open)
		for i := range tasks {
			tasks[i] = store.NewTask{TaskID: fmt.Sprintf("big-%04d", i), StoreID: "S000"}
		}
		_, err := d.Store.CreateRun(t.Context(), run, []store.Place{{StoreID: "S000", Name: "S000", TimeZone: "UTC"}}, tasks,
			store.Request{User: "tech", RequestID: "big", ContentHash: "big"}, now)
		if err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprintf("big-%04d", open-1)
		grant := store.Grant{TaskID: last, StoreID: "S000", TerminalID: "pos", LeaseUntil: now.Add(time.Minute)}
		if _, err := d.Store.Grant(t.Context(), grant, now); err != nil {
			t.Fatal(err)
		}
		hello := protocol.Hello{Meta: protocol.Meta{ID: "h"}, Partial: true}
		d.hello(hello)
		sync := d.Broker.Orders(protocol.OrderSync)
		if len(sync) != 1 {
			t.Fatalf("%d answers", len(sync))
		}
		o := sync[0].Order
		if !o.Partial || len(o.Open) != 3000 || o.HelloID != "h" || len(sync[0].Payload) > protocol.MaxPayloadBytes {
			t.Errorf("partial %t, %d tasks in %d bytes", o.Partial, len(o.Open), len(sync[0].Payload))
		}
		if first := o.Open[0]; first.TaskID != last || !first.Mine {
			t.Errorf("the terminal's own attempt is not first: %+v", first)
		}
		if len(d.republish) != 0 {
			t.Error("offers that the cut hello may well know were published again")
		}
		hello.Partial = false
		d.hello(hello)
		if len(d.republish) != 1 {
			t.Error("offers that the terminal does not know were not published again")
		}
	})
}

// TestMemoryAndStoreAgreeWhateverIsLost lets births, wills, hellos and returns
// of an external broker come in any order, with a store that fails in between.
func TestMemoryAndStoreAgreeWhateverIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steptest.Bubble(t, rt, func(t *testing.T) {
			d := &desk{t: t, Bench: steptest.New(t)}
			terminals := &failing{Store: d.Store}
			d.Presence = presence.New(presence.Config{Terminals: terminals, Tasks: d.Store, Sender: d.Sender,
				Listeners: []presence.Listener{d}, Republish: func(string) {}, Now: time.Now, Logger: d.Logger})
			if err := d.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Presence.Stop)
			newest, alive := 0, false
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				switch rapid.IntRange(0, 6).Draw(rt, "act") {
				case 0:
					newest, alive = newest+1, true
					d.says(birth(fmt.Sprint("s", newest)))
				case 1: // a will, of the newest session or an older one
					of := rapid.IntRange(max(1, newest-1), max(1, newest)).Draw(rt, "of")
					alive = alive && of != newest
					d.says(protocol.Presence{SessionID: fmt.Sprint("s", of)})
				case 2:
					if alive {
						d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
					}
				case 3:
					d.Reached()
				case 4:
					terminals.fail(errors.New("disk full"))
				case 5:
					terminals.fail(nil)
				case 6:
					time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 10 * time.Second, 80 * time.Second}).Draw(rt, "sleep"))
				}
			}
			terminals.fail(nil)
			if alive { // the agent says hello until it is heard
				d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}})
			}
			time.Sleep(2 * time.Minute)
			if d.Online("S000") != alive {
				steptest.Fail("online %t, the session %d is alive: %t", d.Online("S000"), newest, alive)
			}
			if got := d.stored(); got.Online != alive || alive && got.SessionID != fmt.Sprint("s", newest) {
				steptest.Fail("the store says %+v, session %d, alive %t", got, newest, alive)
			}
			asked := len(d.questions(time.Now()))
			time.Sleep(30 * time.Second)
			if again := len(d.questions(time.Now())) - asked; again != 0 {
				steptest.Fail("still asked %d times", again)
			}
		})
	})
}
