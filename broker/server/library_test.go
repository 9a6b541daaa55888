package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
)

// What the MQTT library does by itself, and what must be seen instead.

// TestOffersWaitForAnAbsentTerminal: the library's resumed sessions lose, double
// and reorder. What is retained comes exactly once, and only what is still open.
func TestOffersWaitForAnAbsentTerminal(t *testing.T) {
	_, opts := newSessions()
	s := start(t, anonymous(), opts)
	const offers = 2_000
	for round := range 2 {
		pos := connect(t, s, login{user: "0001/pos1", id: "0001/pos1", expiry: 3600})
		pos.subscribe(root + "/stores/0001/tasks/+")
		for range round * offers / 2 {
			pos.next()
		}
		_ = pos.Disconnect(&paho.Disconnect{})
		eventually(t, "the terminal is gone", func() bool { return !s.Known("0001/pos1") })
		for n := range offers {
			publish(t, s, fmt.Sprintf("%s/stores/0001/tasks/r%d-%d", root, round, n), "offer", true)
		}
		for n := range offers / 2 {
			publish(t, s, fmt.Sprintf("%s/stores/0001/tasks/r%d-%d", root, round, n), "", true)
		}
	}
	pos := connect(t, s, login{user: "0001/pos1", id: "0001/pos1", expiry: 3600})
	pos.subscribe(root + "/stores/0001/tasks/+")
	seen := map[string]int{}
	for range offers {
		got := pos.next()
		seen[got.Topic]++
		if string(got.Payload) != "offer" || !got.Retain {
			t.Fatalf("got %+v", got)
		}
	}
	if len(seen) != offers {
		t.Errorf("%d of %d offers", len(seen), offers)
	}
	marker(t, s, root+"/stores/0001/tasks/marker", pos)
}

// TestWhatTheIntakeDecidesHoldsForEveryVersionAndQoS: a code that a hook of the
// library returns means something else at QoS 0 and in 3.1.1, where the message
// is delivered all the same.
func TestWhatTheIntakeDecidesHoldsForEveryVersionAndQoS(t *testing.T) {
	for name, verdict := range map[string]error{"taken in": nil, "not taken in": errors.New("disk full")} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 10)
			s := start(t, anonymous(), server.Options{Intake: func(context.Context, server.Message) error {
				asked <- struct{}{}
				return verdict
			}})
			watcher := connect(t, s, as("olga"))
			watcher.subscribe(root + "/stores/#")
			for _, version := range []byte{4, 5} {
				for _, qos := range []byte{0, 1, 2} {
					acknowledged := tellQoS(t, s, version, qos)
					receive(t, asked)
					if want := qos > 0 && verdict == nil; acknowledged != want {
						t.Errorf("version %d, QoS %d: acknowledged %v", version, qos, acknowledged)
					}
				}
			}
			marker(t, s, root+"/stores/0001/tasks/marker", watcher)
			late := connect(t, s, as("oscar"))
			late.subscribe(root + "/stores/#")
			marker(t, s, root+"/stores/0001/tasks/marker", late)
		})
	}
}

// tellQoS publishes a retained claim and returns whether the answer to a ping
// that follows came after an acknowledgement.
func tellQoS(t *testing.T, s *server.Server, version, qos byte) bool {
	t.Helper()
	c := dial(t, s)
	id := fmt.Sprintf("0001/v%dq%d", version, qos)
	c.login(version, id, id)
	var packetID, properties []byte
	if qos > 0 {
		packetID = []byte{0, 1}
	}
	if version == 5 {
		properties = []byte{0}
	}
	topic := root + "/stores/0001/terminals/" + id[5:] + "/claim"
	c.send(frame(0x31|qos<<1, str(topic), packetID, properties, []byte("{}")))
	c.send([]byte{0xc0, 0})
	for acknowledged := false; ; {
		switch kind, _ := c.read(); kind {
		case 0x40, 0x50:
			acknowledged = true
		case 0xd0:
			return acknowledged
		default:
			t.Fatalf("got 0x%02x", kind)
		}
	}
}

// TestOfferExpires: an inline message of the library is one of version 3.1.1,
// whose expiry never comes.
func TestOfferExpires(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	topic := root + "/stores/0001/tasks/t1"
	err := s.Publish(t.Context(), server.Outgoing{Topic: topic, Payload: []byte("offer"), Retain: true, Expiry: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	pos := connect(t, s, as("0001/pos1"))
	pos.subscribe(topic)
	if got := pos.next(); string(got.Payload) != "offer" {
		t.Errorf("got %q", got.Payload)
	}
	eventually(t, "the offer is gone", func() bool {
		pos.subscribe(topic)
		publish(t, s, topic, "marker", false)
		got := pos.next()
		if got.Retain {
			pos.next() // the marker after it
		}
		return !got.Retain
	})
}

// TestWhatHasNoExpiryStays: the library purges retained messages after a day.
func TestWhatHasNoExpiryStays(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	publish(t, s, root+"/info", "about", true)
	if n := s.PurgeAt(time.Now().Add(10 * 24 * time.Hour)); n != 0 {
		t.Errorf("%d messages were purged", n)
	}
	c := connect(t, s, as("olga"))
	c.subscribe(root + "/info")
	if got := c.next(); string(got.Payload) != "about" {
		t.Errorf("got %q", got.Payload)
	}
}

// TestBrokerKeepsNothing: the library's persistence loses and repeats, so there
// is none; headquarters' store is the only truth (I10).
func TestBrokerKeepsNothing(t *testing.T) {
	cfg := anonymous()
	first := start(t, cfg, server.Options{})
	publish(t, first, root+"/info", "about", true)
	c := connect(t, first, login{user: "olga", id: "olga", expiry: 3600})
	c.subscribe(root + "/#")
	cfg.Listeners.TCP.Address = first.Addr("tcp").String()
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, cfg, server.Options{})
	again, ack, err := tryConnect(t, second, login{user: "olga", id: "olga", expiry: 3600})
	if err != nil || ack.SessionPresent {
		t.Fatalf("%+v %v", ack, err)
	}
	again.subscribe(root + "/info")
	marker(t, second, root+"/info", again)
}
