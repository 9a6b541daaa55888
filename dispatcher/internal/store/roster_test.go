package store_test

import (
	"fmt"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

func TestReplacePlaces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	place := func(id, name string) store.Place {
		return store.Place{StoreID: id, Name: name, TimeZone: "Asia/Shanghai", Labels: map[string]string{"city": name}}
	}
	steps := []struct {
		register                []store.Place
		added, changed, retired int
		ids                     string
	}{
		{[]store.Place{place("1E5", "b"), place("007", "a"), place("06-8108", "=1+1\"<script>🏪")}, 3, 0, 0, "[007 06-8108 1E5]"},
		{[]store.Place{place("1E5", "b"), place("007", "a"), place("06-8108", "=1+1\"<script>🏪")}, 0, 0, 0, "[007 06-8108 1E5]"},
		{[]store.Place{place("1E5", "c"), place("7", "a")}, 1, 1, 2, "[1E5 7]"},
		{[]store.Place{place("007", "a"), place("1E5", "c")}, 1, 0, 1, "[007 1E5]"},
		{nil, 0, 0, 2, "[]"},
	}
	for i, step := range steps {
		added, changed, retired, err := b.ReplacePlaces(t.Context(), "", step.register, t0)
		if err != nil || added != step.added || changed != step.changed || retired != step.retired {
			t.Errorf("step %d: %d added, %d changed, %d retired, %v", i, added, changed, retired, err)
		}
		places, err := b.ListPlaces(t.Context())
		ids := []string{}
		for _, p := range places {
			ids = append(ids, p.StoreID)
			if p.Labels["city"] != p.Name {
				t.Errorf("step %d: %+v", i, p)
			}
		}
		if err != nil || fmt.Sprint(ids) != step.ids {
			t.Errorf("step %d: %v, want %s, %v", i, ids, step.ids, err)
		}
	}
}

func seconds(n int) time.Time { return at(time.Duration(n) * time.Second) }

func TestStalePresenceNeverWins(t *testing.T) {
	t.Parallel()
	type word struct {
		online  bool
		session string
		since   int // seconds
		applied bool
	}
	tests := []struct {
		name   string
		words  []word
		online bool
		since  int
	}{
		{"on, off", []word{{true, "A", 1, true}, {false, "A", 2, true}}, false, 2},
		{"off of an unknown terminal", []word{{false, "A", 1, false}}, false, 0},
		{"off of an older session", []word{{true, "A", 1, true}, {true, "B", 2, true}, {false, "A", 3, false}}, true, 2},
		{"off twice", []word{{true, "A", 1, true}, {false, "A", 2, true}, {false, "A", 3, false}}, false, 2},
		{"an older on after a newer", []word{{true, "B", 2, true}, {true, "A", 1, false}}, true, 2},
		{"an older on after the newer's off", []word{{true, "B", 2, true}, {false, "B", 3, true}, {true, "A", 1, false}}, false, 3},
		// The takeover's beginning may be told after the end of what it took over.
		{"takeover told late", []word{{true, "A", 1, true}, {false, "A", 3, true}, {true, "B", 2, true}}, true, 2},
		{"the same on again", []word{{true, "A", 1, true}, {true, "A", 1, true}}, true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for i, w := range tt.words {
				applied, err := b.SetPresence(t.Context(), store.Terminal{StoreID: "S", TerminalID: "pos1", Online: w.online,
					SessionID: w.session, Since: seconds(w.since)}, at(time.Hour))
				if err != nil || applied != w.applied {
					t.Errorf("word %d: applied %t, %v", i, applied, err)
				}
			}
			terminals, err := b.ListTerminals(t.Context(), "S")
			if err != nil {
				t.Fatal(err)
			}
			if tt.since == 0 {
				if len(terminals) != 0 {
					t.Errorf("%+v", terminals)
				}
				return
			}
			if terminals[0].Online != tt.online || terminals[0].Since != seconds(tt.since) {
				t.Errorf("%+v", terminals[0])
			}
		})
	}
}

// TestASessionOfTheFutureCountsForNothing: the clock was a year ahead once.
func TestASessionOfTheFutureCountsForNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	set := func(session string, online bool, since, now time.Duration) bool {
		t.Helper()
		applied, err := b.SetPresence(t.Context(), store.Terminal{StoreID: storeID(0), TerminalID: "pos1", SessionID: session, Online: online, Since: at(since)}, at(now))
		if err != nil {
			t.Fatal(err)
		}
		return applied
	}
	const year = 365 * 24 * time.Hour
	set("old", true, year, year)
	b.reopen()
	if err := b.ResetPresence(t.Context(), at(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if !set("new", true, 2*time.Minute, 2*time.Minute) {
		t.Error("the new session was not stored")
	}
	if set("late", true, time.Minute, 3*time.Minute) {
		t.Error("an older session was stored after it")
	}
	if n, err := b.CountOnline(t.Context(), "R"); err != nil || n != 1 {
		t.Errorf("%d online, %v", n, err)
	}
	terminals, err := b.ListTerminals(t.Context(), storeID(0))
	if err != nil || terminals[0].LastSeenAt != at(2*time.Minute) {
		t.Errorf("%+v, %v", terminals, err)
	}
	set("new", false, 4*time.Minute, 4*time.Minute)
	if n, err := b.CountOnline(t.Context(), "R"); err != nil || n != 0 {
		t.Errorf("%d online after its end, %v", n, err)
	}
}

func TestRestartKeepsWhenTerminalsWereSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(3)
	skew := int64(-4200)
	set := func(i int, online bool, since time.Duration) {
		t.Helper()
		_, err := b.SetPresence(t.Context(), store.Terminal{StoreID: storeID(i), TerminalID: "pos1", SessionID: "A", Online: online, Since: at(since)}, at(since))
		if err != nil {
			t.Fatal(err)
		}
	}
	set(0, true, time.Second)
	set(1, true, time.Second)
	set(1, false, 2*time.Second)
	if err := b.SaveHello(t.Context(), store.Terminal{StoreID: storeID(0), TerminalID: "pos1", ClockSkewMs: &skew, Hello: []byte(`{"v":1.0}`)}, at(3*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := b.SaveHello(t.Context(), store.Terminal{StoreID: storeID(2), TerminalID: "pos9"}, at(4*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := b.CountOnline(t.Context(), "R"); err != nil || n != 1 {
		t.Errorf("%d online, %v", n, err)
	}
	if err := b.Beat(t.Context(), at(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	if err := b.ResetPresence(t.Context(), at(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want := []store.Terminal{
		{Since: at(time.Hour), LastSeenAt: at(time.Minute), SessionID: "A", ClockSkewMs: &skew, Hello: []byte(`{"v":1.0}`)},
		{Since: at(2 * time.Second), LastSeenAt: at(2 * time.Second), SessionID: "A"},
		{LastSeenAt: at(4 * time.Second)},
	}
	for i, w := range want {
		got, err := b.ListTerminals(t.Context(), storeID(i))
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		g := got[0]
		if g.Online || g.Since != w.Since || g.LastSeenAt != w.LastSeenAt || g.SessionID != w.SessionID || string(g.Hello) != string(w.Hello) ||
			(g.ClockSkewMs == nil) != (w.ClockSkewMs == nil) {
			t.Errorf("store %d: %+v, want %+v", i, g, w)
		}
	}
	if n, err := b.CountOnline(t.Context(), "R"); err != nil || n != 0 {
		t.Errorf("%d online, %v", n, err)
	}
}
