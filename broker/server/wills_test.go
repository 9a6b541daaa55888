package server_test

import (
	"testing"
	"time"

	"muster/broker/server"
)

// TestAWillWaitsForItsDelayAndNoLongerThanItsSession (MQTT 5, 3.1.3.2.2).
func TestAWillWaitsForItsDelayAndNoLongerThanItsSession(t *testing.T) {
	for name, c := range map[string]struct {
		delay, session uint32
		least          time.Duration
	}{
		"its delay":   {1, 3600, 700 * time.Millisecond},
		"its session": {3600, 1, 700 * time.Millisecond},
		"no session":  {3600, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, anonymous(), server.Options{})
			watcher := connect(t, s, as("olga"))
			watcher.subscribe(presence)
			l := presenceWill()
			l.willDelay, l.expiry = c.delay, c.session
			raw := dial(t, s)
			_, _, err := connectOver(t, raw.Conn, l)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			_ = raw.Close()
			if got := watcher.next(); string(got.Payload) != "gone" || time.Since(begin) < c.least {
				t.Errorf("%q after %v", got.Payload, time.Since(begin))
			}
			late := connect(t, s, as("oscar"))
			late.subscribe(presence)
			if got := late.next(); string(got.Payload) != "gone" || !got.Retain {
				t.Errorf("retained %q", got.Payload)
			}
		})
	}
}

// TestAClientThatComesBackIsNotGone: its will waits, and is forgotten.
func TestAClientThatComesBackIsNotGone(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	watcher := connect(t, s, as("olga"))
	watcher.subscribe(presence)
	l := presenceWill()
	l.willDelay, l.expiry, l.clean = 1, 3600, false
	raw := dial(t, s)
	if _, _, err := connectOver(t, raw.Conn, l); err != nil {
		t.Fatal(err)
	}
	_ = raw.Close()
	eventually(t, "its connection is over", func() bool { return s.Connected() == 1 })
	l.will = nil
	if _, ack, err := tryConnect(t, s, l); err != nil || !ack.SessionPresent {
		t.Fatalf("%+v %v", ack, err)
	}
	other := presenceWill() // of another session, later: what would have come comes before
	other.id, other.user = "0001/pos2", "0001/pos2"
	other.will.Topic = root + "/stores/0001/terminals/pos2/presence"
	other.willDelay, other.expiry = 2, 3600
	watcher.subscribe(other.will.Topic)
	raw = dial(t, s)
	if _, _, err := connectOver(t, raw.Conn, other); err != nil {
		t.Fatal(err)
	}
	_ = raw.Close()
	if got := watcher.next(); got.Topic != other.will.Topic {
		t.Errorf("got %s", got.Topic)
	}
}

// TestWhatTheLibrarySaysOfItselfIsSent to those who may read it.
func TestWhatTheLibrarySaysOfItselfIsSent(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	c := connect(t, s, as("olga"))
	c.subscribe("$SYS/broker/version")
	if got := c.next(); !got.Retain || len(got.Payload) == 0 {
		t.Errorf("got %+v", got)
	}
	s.Tick()
	if got := c.next(); got.Retain || len(got.Payload) == 0 {
		t.Errorf("got %+v", got)
	}
}
