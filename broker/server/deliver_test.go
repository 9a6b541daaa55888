package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"muster/broker/server"
	"muster/broker/server/access"
)

// maximum is a Maximum Packet Size of 200.
var maximum = []byte{0x27, 0, 0, 0, 200}

var large = strings.Repeat("x", 1_000)

// payloads reads QoS 1 messages until the answer to a ping, acknowledges them, and
// returns how many came.
func (r *raw) payloads() (count int) {
	r.t.Helper()
	r.send([]byte{0xc0, 0})
	for {
		kind, body := r.read()
		if kind == 0xd0 {
			return count
		}
		if kind>>4 != 3 {
			r.t.Fatalf("got 0x%02x", kind)
		}
		count++
		topic := int(body[0])<<8 | int(body[1])
		r.send([]byte{0x40, 2, body[2+topic], body[3+topic]})
	}
}

// TestAMessageThatIsTooLargeHidesNoOther: the server must act as if it had sent
// it (MQTT 5, 3.1.2.11.4).
func TestAMessageThatIsTooLargeHidesNoOther(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	const small, tooLarge = 20, 5
	for n := range small + tooLarge {
		payload := "small"
		if n%5 == 1 {
			payload = large
		}
		publish(t, s, fmt.Sprintf("%s/runs/r%d/state", root, n), payload, true)
	}
	c := dial(t, s)
	c.login(5, "olga", "olga", maximum...)
	c.send(frame(0x82, []byte{0, 1, 0}, str(root+"/runs/#"), []byte{1}))
	c.read()
	if n := c.payloads(); n != small {
		t.Errorf("retained: %d came, not %d", n, small)
	}
	publish(t, s, root+"/runs/r1/state", large, false)
	publish(t, s, root+"/runs/r1/state", "small", false)
	s.Postpone("olga", root+"/runs/r1/state", []byte(large))
	s.Postpone("olga", root+"/runs/r1/state", []byte("small"))
	technician := connect(t, s, as("0001/pos1"))
	presence := root + "/stores/0001/terminals/pos1/presence"
	c.send(frame(0x82, []byte{0, 2, 0}, str(presence), []byte{1}))
	technician.say(presence, large)
	technician.say(presence, "small")
	came := 0
	eventually(t, "what is small has come", func() bool {
		came += c.count()
		return came == 3
	})
	eventually(t, "nothing stays in flight", func() bool { return s.InFlight("olga") == 0 })
}

// count is payloads, with other packets between.
func (r *raw) count() (count int) {
	r.t.Helper()
	r.send([]byte{0xc0, 0})
	for {
		kind, body := r.read()
		switch {
		case kind == 0xd0:
			return count
		case kind>>4 == 3:
			count++
			topic := int(body[0])<<8 | int(body[1])
			r.send([]byte{0x40, 2, body[2+topic], body[3+topic]})
		}
	}
}

// TestASessionIsResumedWithWhatFits: of what was not acknowledged, the rest.
func TestASessionIsResumedWithWhatFits(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	lasting := []byte{0x11, 0, 0, 1, 0}
	hello := func(properties ...byte) []byte {
		return frame(0x10, str("MQTT"), []byte{5, 0x80, 0, 60}, []byte{byte(len(properties))}, properties, str("olga"), str("olga"))
	}
	c := dial(t, s)
	c.send(hello(lasting...))
	c.read()
	c.send(frame(0x82, []byte{0, 1, 0}, str(root+"/runs/#"), []byte{1}))
	c.read()
	publish(t, s, root+"/runs/r1/state", large, false)
	publish(t, s, root+"/runs/r2/state", "small", false)
	c.read() // neither is acknowledged
	c.read()
	again := dial(t, s)
	again.send(hello(append(lasting, maximum...)...))
	if kind, body := again.read(); kind != 0x20 || body[0] != 1 || body[1] != 0 {
		t.Fatalf("got 0x%02x % x, not the session", kind, body)
	}
	if n := again.payloads(); n != 1 {
		t.Errorf("%d came, not 1", n)
	}
	eventually(t, "nothing stays in flight", func() bool { return s.InFlight("olga") == 0 })
}

// panicky panics when it is asked about a topic.
type panicky struct {
	server.Access
	topic string
}

func (p panicky) MayRead(id access.Identity, filter string) bool {
	if filter == p.topic && id.Name == "0001/pos1" {
		panic("the rules fail")
	}
	return p.Access.MayRead(id, filter)
}

// TestAPanicOnTheWayOutEndsNothing: it is on headquarters' own goroutine.
func TestAPanicOnTheWayOutEndsNothing(t *testing.T) {
	topic := root + "/stores/0001/tasks/t1"
	s := start(t, anonymous(), server.Options{Interop: &server.Interop{Access: panicky{access.New(root), topic}}})
	for _, user := range []string{"0001/pos1", "0001/pos2", "olga"} {
		connect(t, s, as(user)).subscribe(root + "/stores/0001/tasks/+")
	}
	witness := connect(t, s, as("0001/pos3"))
	witness.subscribe(topic)
	publish(t, s, topic, "offer", true)
	if got := witness.next(); string(got.Payload) != "offer" {
		t.Errorf("got %q", got.Payload)
	}
}

// TestWhatCannotBeKeptIsNotTaken: it is on headquarters' own goroutine too.
func TestWhatCannotBeKeptIsNotTaken(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	working := s.FailToKeep(nil)
	err := s.Publish(t.Context(), server.Outgoing{Topic: root + "/info", Payload: []byte("about"), Retain: true})
	s.FailToKeep(working)
	if err == nil {
		t.Error("it was taken")
	}
}

// loud panics when it is to log that a message is lost.
type loud struct{ slog.Handler }

func (loud) Enabled(context.Context, slog.Level) bool { return true }

func (loud) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "does not reach its reader") {
		panic("the log fails")
	}
	return nil
}

// TestAPanicInABacklogEndsItsConnection: the client would never be sent the rest.
func TestAPanicInABacklogEndsItsConnection(t *testing.T) {
	s := start(t, anonymous(), server.Options{Logger: slog.New(loud{slog.DiscardHandler})})
	c := dial(t, s)
	c.login(5, "olga", "olga", maximum...)
	s.Postpone("olga", root+"/runs/r1/state", []byte(large))
	c.closed()
	again := connect(t, s, as("olga"))
	again.subscribe(root + "/runs/#")
	s.Postpone("olga", root+"/runs/r1/state", []byte("small"))
	if got := again.next(); string(got.Payload) != "small" {
		t.Errorf("got %q", got.Payload)
	}
}
