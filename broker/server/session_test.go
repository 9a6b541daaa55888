package server_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
)

// TestExpiredSessionLeavesNothing: the library forgets to unsubscribe it, and
// lets a DISCONNECT prolong it without limit.
func TestExpiredSessionLeavesNothing(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.SessionExpiry = time.Second
	s := start(t, cfg, server.Options{})
	l := as("olga")
	l.expiry = 1 << 31
	c := connect(t, s, l)
	c.subscribe(root + "/runs/#")
	forever := uint32(1<<32 - 1)
	_ = c.Disconnect(&paho.Disconnect{Properties: &paho.DisconnectProperties{SessionExpiryInterval: &forever}})
	eventually(t, "the session is forgotten", func() bool { return !s.Known("olga") && s.Subscriptions() == 0 })
}

func TestMislaidClientIsHeardAgain(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	c := connect(t, s, as("olga"))
	s.Mislay("olga")
	c.subscribe(root + "/runs/#")
	publish(t, s, root+"/runs/r1/state", "x", false)
	if got := c.next(); string(got.Payload) != "x" {
		t.Errorf("got %s", got)
	}
}

// TestReplayWaitsForAcknowledgementsAndSkipsWhatIsWithdrawn holds back the
// acknowledgements, withdraws what is left, and then acknowledges.
func TestReplayWaitsForAcknowledgementsAndSkipsWhatIsWithdrawn(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	const window, more = 1_024, 6
	topics := map[string]bool{}
	for n := range window + more {
		topic := fmt.Sprintf("%s/runs/r%d/state", root, n)
		topics[topic] = true
		publish(t, s, topic, "retained", true)
	}
	c := dial(t, s)
	c.login(5, "olga", "olga")
	c.send(frame(0x82, []byte{0, 1, 0}, str(root+"/runs/#"), []byte{1}))
	c.read()
	var ids [][]byte
	for range window {
		kind, body := c.read()
		if kind != 0x33 {
			t.Fatalf("got 0x%02x", kind)
		}
		size := int(body[1])
		delete(topics, string(body[2:2+size]))
		ids = append(ids, body[2+size:4+size])
	}
	ping := func(want int) {
		t.Helper()
		c.send([]byte{0xc0, 0})
		for range want {
			if kind, body := c.read(); kind>>4 != 3 || bytes.HasSuffix(body, []byte("retained")) {
				t.Errorf("got 0x%02x % x", kind, body)
			}
		}
		if kind, body := c.read(); kind != 0xd0 {
			t.Fatalf("got 0x%02x % x, not PINGRESP", kind, body)
		}
	}
	ping(0) // no more before an acknowledgement
	if len(topics) != more {
		t.Fatalf("%d left", len(topics))
	}
	kept := ""
	for topic := range topics {
		if kept == "" {
			kept = topic
			continue
		}
		publish(t, s, topic, "", true)
	}
	for range more - 1 { // the withdrawals themselves
		if kind, _ := c.read(); kind != 0x32 {
			t.Errorf("got 0x%02x", kind)
		}
	}
	for _, id := range ids[:100] {
		c.send(frame(0x40, id))
	}
	if kind, body := c.read(); kind != 0x33 || !bytes.Contains(body, []byte(kept)) {
		t.Errorf("got 0x%02x %q, want %s", kind, body, kept)
	}
	ping(0)
}
