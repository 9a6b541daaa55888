package server_test

import (
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

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

// TestAnEmptyWillIsLeft, and clears what is retained (MQTT 5, 3.1.3.4).
func TestAnEmptyWillIsLeft(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	watcher := connect(t, s, as("olga"))
	watcher.subscribe(presence)
	l := presenceWill()
	l.will.Payload = nil
	pos := connect(t, s, l)
	pos.publish(&paho.Publish{Topic: presence, QoS: 1, Retain: true, Payload: []byte("here")})
	if got := watcher.next(); string(got.Payload) != "here" {
		t.Errorf("got %q", got.Payload)
	}
	_ = pos.Disconnect(&paho.Disconnect{ReasonCode: 4}) // with will
	if got := watcher.next(); len(got.Payload) != 0 || got.Topic != presence {
		t.Errorf("got %q of %s", got.Payload, got.Topic)
	}
	late := connect(t, s, as("oscar"))
	late.subscribe(presence)
	marker(t, s, presence, late)
}

// TestAQuotaOfZeroIsRefused (MQTT 5, 3.1.2.11.3 and 3.1.2.11.4).
func TestAQuotaOfZeroIsRefused(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	for name, properties := range map[string][]byte{"receive maximum": {0x21, 0, 0}, "maximum packet size": {0x27, 0, 0, 0, 0}} {
		if code := dial(t, s).login(5, "olga", "x", properties...); code != 0x82 {
			t.Errorf("%s: CONNACK 0x%02x", name, code)
		}
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
