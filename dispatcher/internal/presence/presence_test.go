package presence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

// desk is a presence over a bench.
type desk struct {
	*steptest.Bench
	*presence.Presence
	t testing.TB

	off atomic.Int64 // how far headquarters' time stepped

	mu        sync.Mutex
	away      []string
	republish []string
}

func (d *desk) now() time.Time { return time.Now().Add(time.Duration(d.off.Load())) }

// Offline is for presence.
func (d *desk) Offline(storeID, terminalID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = append(d.away, storeID+"/"+terminalID)
}

func open(t testing.TB, path string, announce bool) *desk {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "muster.db")
	}
	d := &desk{t: t, Bench: steptest.Open(t, path)}
	d.Presence = presence.New(presence.Config{Terminals: d.Store, Tasks: d.Store, Sender: d.Sender,
		Listeners: []presence.Listener{d}, Republish: func(s string) { d.republish = append(d.republish, s) },
		Announce: announce, Now: d.now, Logger: d.Logger})
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Presence.Stop)
	return d
}

func (d *desk) session(id string, online bool) {
	d.Session(transport.Session{StoreID: "S000", TerminalID: "pos", SessionID: id, Online: online, At: time.Now()})
}

func (d *desk) says(m protocol.Presence) {
	d.t.Helper()
	if err := d.HandlePresence(d.t.Context(), steptest.From(0, protocol.KindPresence), steptest.Message(m)); err != nil {
		d.t.Error(err)
	}
}

func (d *desk) hello(m protocol.Hello) {
	d.t.Helper()
	if err := d.HandleHello(d.t.Context(), steptest.From(0, protocol.KindHello), steptest.Message(m)); err != nil {
		d.t.Error(err)
	}
}

func (d *desk) stored() store.Terminal {
	d.t.Helper()
	synctest.Wait()
	all, err := d.Store.ListTerminals(d.t.Context(), "S000")
	if err != nil {
		d.t.Fatal(err)
	}
	if len(all) == 0 {
		return store.Terminal{}
	}
	return all[0]
}

func TestASessionIsStoredAnnouncedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", true)
		d.session("a", true)
		began := time.Now()
		if got := d.stored(); !got.Online || got.SessionID != "a" || !got.Since.Equal(began) || !d.Online("S000") || d.Count() != 1 {
			t.Errorf("stored %+v", got)
		}
		time.Sleep(time.Minute)
		d.session("a", false)
		if got := d.stored(); got.Online || !got.Since.Equal(time.Now()) || d.Online("S000") || d.Count() != 0 {
			t.Errorf("stored %+v", got)
		}
		if fmt.Sprint(d.away) != "[S000/pos]" {
			t.Errorf("told %v", d.away)
		}
		var last protocol.Presence
		if err := json.Unmarshal(d.Broker.Retained("muster/v1/stores/S000/terminals/pos/presence"), &last); err != nil {
			t.Fatal(err)
		}
		if last.Online || last.SessionID != "a" || !last.Since.Equal(time.Now()) {
			t.Errorf("announced %+v", last)
		}
	})
}

func TestTheEndOfATakenOverSessionIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", true)
		d.session("a", true)
		time.Sleep(time.Second)
		d.session("b", true)
		d.session("a", false)
		if got := d.stored(); !got.Online || got.SessionID != "b" || len(d.away) != 0 {
			t.Errorf("stored %+v, told %v", got, d.away)
		}
		d.Session(transport.Session{StoreID: "S000", TerminalID: "pos", SessionID: "a", Online: true,
			At: time.Now().Add(-time.Second)}) // late news of the old one
		d.session("b", false)
		d.session("b", true) // its beginning after its end
		if got := d.stored(); got.Online || d.Online("S000") || len(d.away) != 1 {
			t.Errorf("stored %+v, told %v", got, d.away)
		}
	})
}

func TestAnExternalBrokersWillsAndBirths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", false)
		d.says(counted("old", false, 9)) // retained from before the start
		if d.Online("S000") || len(d.away) != 0 {
			t.Error("a will of before the start counts")
		}
		d.says(counted("a", true, 11))
		d.says(counted("b", true, 21))
		d.says(counted("a", true, 11))  // again
		d.says(counted("a", false, 10)) // the delayed will of the first
		if got := d.stored(); !got.Online || got.SessionID != "b" || len(d.away) != 0 {
			t.Errorf("stored %+v, told %v", got, d.away)
		}
		d.says(counted("b", false, 20))
		d.says(counted("c", true, 1)) // it lost its disk, and counts from a dead clock
		if got := d.stored(); !got.Online || got.SessionID != "c" || len(d.away) != 1 {
			t.Errorf("stored %+v, told %v", got, d.away)
		}
		if len(d.Broker.Sent()) != 0 {
			t.Error("headquarters announced what terminals announce themselves")
		}
		for _, payload := range []string{"", "{}", "no"} {
			in := transport.Inbound{Payload: []byte(payload)}
			if err := d.HandlePresence(t.Context(), steptest.From(0, protocol.KindPresence), in); err != nil {
				t.Error(err)
			}
		}
		if d.Malformed() != 2 {
			t.Errorf("%d counted", d.Malformed())
		}
	})
}

// counted is a word of a terminal with its number.
func counted(session string, online bool, seq int64) protocol.Presence {
	return protocol.Presence{Meta: protocol.Meta{Seq: seq}, Online: online, SessionID: session, Since: protocol.At(time.Now())}
}

// TestATerminalsClockRanksNoSession: it was set while the terminal was away, and
// the will of its older session comes later than its new birth.
func TestATerminalsClockRanksNoSession(t *testing.T) {
	for _, set := range []time.Duration{-26 * time.Hour, -time.Second, 0, 26 * time.Hour} {
		t.Run(set.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, "", false)
				will, old, fresh := counted("old", false, 1), counted("old", true, 2), counted("new", true, 3)
				fresh.Since = protocol.At(time.Now().Add(set))
				fresh.At = fresh.Since
				for _, word := range []protocol.Presence{old, fresh, will, old} {
					d.says(word)
				}
				if got := d.stored(); !got.Online || got.SessionID != "new" || !got.Since.Equal(time.Now()) || !d.Online("S000") || len(d.away) != 0 {
					t.Errorf("online %t, stored %+v, told %v", d.Online("S000"), got, d.away)
				}
				will.SessionID = "new"
				d.says(will)
				if d.Online("S000") || len(d.away) != 1 {
					t.Errorf("online %t after its end, told %v", d.Online("S000"), d.away)
				}
			})
		})
	}
}

func TestHelloIsAnsweredWithWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", true)
		for _, run := range []string{"q", "r", "s"} {
			d.Create(run, 2, steptest.Policy())
		}
		for _, g := range []store.Grant{{TaskID: "q-S000", TerminalID: "pos"}, {TaskID: "r-S000", TerminalID: "other"}} {
			g.StoreID, g.LeaseUntil = "S000", time.Now().Add(time.Minute)
			if _, err := d.Store.Grant(t.Context(), g, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		hello := protocol.Hello{Meta: protocol.Meta{ID: "h1"}, AgentVersion: "1.2", ClockMs: time.Now().UnixMilli() - 5000,
			Labels: map[string]string{"region": "east"}, Open: []protocol.OpenTask{{TaskID: "s-S000", Phase: "offered"}}}
		d.hello(hello)
		synctest.Wait()
		sync := d.Broker.Orders(protocol.OrderSync)
		if len(sync) != 1 || sync[0].Order.HelloID != "h1" || sync[0].Order.ServerTimeMs != time.Now().UnixMilli() {
			t.Fatalf("answered %+v", sync)
		}
		got := map[string]protocol.SyncTask{}
		for _, o := range sync[0].Order.Open {
			got[o.TaskID] = o
		}
		want := map[string]protocol.SyncTask{
			"q-S000": {TaskID: "q-S000", Status: task.Running, Attempt: 1, Mine: true},
			"r-S000": {TaskID: "r-S000", Status: task.Running, Attempt: 1},
			"s-S000": {TaskID: "s-S000", Status: task.Pending},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("open %v, want %v", got, want)
		}
		if len(d.republish) != 0 {
			t.Error("an offer that the terminal knows was published again")
		}
		stored := d.stored()
		if stored.ClockSkewMs == nil || *stored.ClockSkewMs != -5000 || !stored.LastSeenAt.Equal(time.Now()) || stored.Online {
			t.Errorf("stored %+v", stored)
		}
		var kept protocol.Hello
		if err := json.Unmarshal(stored.Hello, &kept); err != nil || kept.AgentVersion != "1.2" || kept.Labels["region"] != "east" || len(kept.Open) != 0 {
			t.Errorf("kept %s", stored.Hello)
		}
		hello.Open = nil
		d.hello(hello)
		if fmt.Sprint(d.republish) != "[S000]" {
			t.Errorf("published again: %v", d.republish)
		}
	})
}

func TestAfterARestartNobodyIsOnlineAndLastSeenIsTheLastBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		first := open(t, path, true)
		first.session("a", true)
		time.Sleep(62 * time.Second)
		beat := time.Now().Add(-2 * time.Second)
		synctest.Wait()
		first.Presence.Stop() // as good as a crash: nobody said goodbye
		first.Presence.Stop()
		first.Bench.Close()
		time.Sleep(time.Hour)
		d := open(t, path, true)
		if got := d.stored(); got.Online || !got.LastSeenAt.Equal(beat) || d.Online("S000") {
			t.Errorf("stored %+v, the last beat was %v", got, beat)
		}
		d.session("a", true) // ids may come again after a restart
		if got := d.stored(); !got.Online {
			t.Errorf("stored %+v", got)
		}
	})
}

// failing is a store that fails while told to.
type failing struct {
	*store.Store
	mu  sync.Mutex
	err error
}

func (f *failing) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) SetPresence(ctx context.Context, t store.Terminal, now time.Time) (bool, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return false, err
	}
	return f.Store.SetPresence(ctx, t, now)
}

// TestAClockThatWasSetBackHidesNobody: sessions of a year ahead stand in the store,
// from before the start and from since.
func TestAClockThatWasSetBackHidesNobody(t *testing.T) {
	for name, running := range map[string]bool{"before the start": false, "while it runs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "muster.db")
				first := steptest.Open(t, path)
				var ahead atomic.Int64
				ahead.Store(int64(365 * 24 * time.Hour))
				clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				d := &desk{t: t, Bench: first}
				start := func() {
					d.Presence = presence.New(presence.Config{Terminals: d.Store, Tasks: d.Store, Sender: d.Sender, Listeners: []presence.Listener{d},
						Republish: func(string) {}, Announce: true, Now: clock, Logger: d.Logger})
					if err := d.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				begins := func(id string) {
					d.Session(transport.Session{StoreID: "S000", TerminalID: "pos", SessionID: id, Online: true, At: clock()})
				}
				start()
				begins("old")
				if got := d.stored(); got.SessionID != "old" {
					t.Fatalf("stored %+v", got)
				}
				if !running {
					d.Presence.Stop()
					ahead.Store(0)
					start()
				}
				ahead.Store(0)
				begins("new") // and the end of the old one is told after it
				d.Session(transport.Session{StoreID: "S000", TerminalID: "pos", SessionID: "old", At: clock()})
				got := d.stored()
				if !got.Online || got.SessionID != "new" || !got.Since.Equal(time.Now()) || !got.LastSeenAt.Equal(time.Now()) || !d.Online("S000") {
					t.Errorf("online %t, stored %+v", d.Online("S000"), got)
				}
				d.Presence.Stop()
			})
		})
	}
}

// TestTheStoreFollows lets sessions begin and end in any order, with a store
// that fails in between, and compares memory, store and listeners at the end.
func TestTheStoreFollows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steptest.Bubble(t, rt, func(t *testing.T) {
			d := &desk{t: t, Bench: steptest.New(t)}
			terminals := &failing{Store: d.Store}
			d.Presence = presence.New(presence.Config{Terminals: terminals, Tasks: d.Store, Sender: d.Sender,
				Listeners: []presence.Listener{d}, Republish: func(string) {}, Announce: true, Now: time.Now, Logger: d.Logger})
			if err := d.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Presence.Stop)
			current, ends, next := "", 0, 0
			for range rapid.IntRange(1, 30).Draw(rt, "steps") {
				switch rapid.IntRange(0, 4).Draw(rt, "act") {
				case 0:
					next++
					current = fmt.Sprint("s", next)
					d.session(current, true)
				case 1:
					id := fmt.Sprint("s", rapid.IntRange(1, 9).Draw(rt, "ends"))
					if id == current {
						current = ""
						ends++
					}
					d.session(id, false)
				case 2:
					terminals.fail(errors.New("disk full"))
				case 3:
					terminals.fail(nil)
				case 4:
					time.Sleep(time.Duration(rapid.IntRange(1, 5000).Draw(rt, "ms")) * time.Millisecond)
				}
			}
			terminals.fail(nil)
			time.Sleep(time.Minute)
			if got := d.stored(); got.Online != (current != "") || got.Online && got.SessionID != current {
				steptest.Fail("the store says %+v, the session is %q", got, current)
			}
			if d.Online("S000") != (current != "") || len(d.away) != ends {
				steptest.Fail("online %t, told %d times of %d ends", d.Online("S000"), len(d.away), ends)
			}
		})
	})
}
