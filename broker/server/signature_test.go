package server_test

import (
	"context"
	"crypto/ed25519"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
	"muster/internal/trust"
)

func signer(t *testing.T) *trust.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return trust.NewSigner(key)
}

// properties carries a signature after something else, and a false one after it.
func properties(s trust.Signature) paho.UserProperties {
	return paho.UserProperties{
		{Key: "traceparent", Value: "00-1"}, {Key: "sig", Value: s.Value}, {Key: "kid", Value: s.KeyID},
		{Key: "kid", Value: "another"}, {Key: "sig", Value: "another"},
	}
}

// carried is the signature on a message that a client received.
func carried(p *paho.Publish) trust.Signature {
	return trust.Signature{KeyID: p.Properties.User.Get("kid"), Value: p.Properties.User.Get("sig")}
}

func TestIntakeIsGivenTheSignature(t *testing.T) {
	taken := make(chan server.Message, 1)
	s := start(t, anonymous(), server.Options{Intake: func(_ context.Context, m server.Message) error { taken <- m; return nil }})
	pos := connect(t, s, as("0001/pos1"))
	topic := root + "/stores/0001/terminals/pos1/claim"
	want := signer(t).Sign(topic, []byte("{}"))
	for name, c := range map[string]struct {
		given paho.UserProperties
		want  trust.Signature
	}{
		"signed":   {properties(want), want},
		"unsigned": {nil, trust.Signature{}},
		"half":     {paho.UserProperties{{Key: "sig", Value: "x"}}, trust.Signature{Value: "x"}},
		"other":    {paho.UserProperties{{Key: "Kid", Value: "x"}, {Key: "SIG", Value: "x"}}, trust.Signature{}},
	} {
		pos.publish(&paho.Publish{Topic: topic, Payload: []byte("{}"), QoS: 1, Properties: &paho.PublishProperties{User: c.given}})
		if m := receive(t, taken); m.Signature != c.want {
			t.Errorf("%s: got %+v", name, m.Signature)
		}
	}
	old := dial(t, s) // 3.1.1 has no properties
	old.login(4, "olga", "olga")
	old.send(frame(0x30, str(root+"/req/olga/run"), []byte("{}")))
	if m := receive(t, taken); !m.Signature.IsZero() {
		t.Errorf("3.1.1: %+v", m.Signature)
	}
}

// TestSignatureSurvivesRetentionAndReconnection: an offer is retained, and what
// a terminal finds after it comes back must be what headquarters signed.
func TestSignatureSurvivesRetentionAndReconnection(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	topic, payload := root+"/stores/0001/tasks/t1", []byte(`{"taskId":"t1"}`)
	want := signer(t).Sign(topic, payload)
	pos := connect(t, s, as("0001/pos1"))
	pos.subscribe(root + "/stores/0001/tasks/+")
	if err := s.Publish(t.Context(), server.Outgoing{Topic: topic, Payload: payload, Retain: true, Signature: want}); err != nil {
		t.Fatal(err)
	}
	if got := pos.next(); carried(got) != want || got.Retain {
		t.Errorf("live: %+v", got)
	}
	_ = pos.Disconnect(&paho.Disconnect{})
	for range 2 {
		again := connect(t, s, as("0001/pos1"))
		again.subscribe(root + "/stores/0001/tasks/+")
		if got := again.next(); carried(got) != want || !got.Retain || string(got.Payload) != string(payload) {
			t.Errorf("retained: %+v", got)
		}
	}
	publish(t, s, root+"/stores/0001/tasks/t2", "{}", false)
	last := connect(t, s, as("0001/pos1"))
	last.subscribe(root + "/stores/0001/tasks/t2")
	publish(t, s, root+"/stores/0001/tasks/t2", "{}", false)
	if got := last.next(); len(got.Properties.User) != 0 {
		t.Errorf("an unsigned message carries %v", got.Properties.User)
	}
}

func TestDispatcherElsewhereSignsThroughTheBroker(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	hq, pos := connect(t, s, as("dispatcher")), connect(t, s, as("0001/pos1"))
	pos.subscribe(root + "/stores/0001/terminals/pos1/orders")
	topic := root + "/stores/0001/terminals/pos1/orders"
	want := signer(t).Sign(topic, []byte("{}"))
	hq.publish(&paho.Publish{Topic: topic, Payload: []byte("{}"), QoS: 1, Properties: &paho.PublishProperties{User: properties(want)}})
	if got := pos.next(); carried(got) != want {
		t.Errorf("got %+v", got.Properties.User)
	}
}

func TestWillKeepsItsSignature(t *testing.T) {
	for name, delay := range map[string]uint32{"at once": 0, "delayed": 1} {
		t.Run(name, func(t *testing.T) {
			s := start(t, anonymous(), server.Options{})
			want := signer(t).Sign(presence, []byte("gone"))
			watcher := connect(t, s, as("olga"))
			watcher.subscribe(presence)
			l := presenceWill()
			l.willDelay, l.expiry, l.willUser = delay, 60, properties(want)
			pos := connect(t, s, l)
			_ = pos.Disconnect(&paho.Disconnect{ReasonCode: 4}) // with will
			if got := watcher.next(); carried(got) != want {
				t.Errorf("live: %+v", got.Properties.User)
			}
			late := connect(t, s, as("oscar"))
			late.subscribe(presence)
			if got := late.next(); carried(got) != want || !got.Retain {
				t.Errorf("retained: %+v", got.Properties.User)
			}
		})
	}
}

// TestWillOfAPanickedConnectionKeepsItsSignature: we publish that one ourselves.
func TestWillOfAPanickedConnectionKeepsItsSignature(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	topic := root + "/stores/0001/terminals/pos1/claim"
	if err := s.PanicOnTopic(topic); err != nil {
		t.Fatal(err)
	}
	want := signer(t).Sign(presence, []byte("gone"))
	watcher := connect(t, s, as("olga"))
	watcher.subscribe(presence)
	l := presenceWill()
	l.willUser = properties(want)
	pos := connect(t, s, l)
	_, _ = pos.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("{}")})
	if got := watcher.next(); carried(got) != want || string(got.Payload) != "gone" {
		t.Errorf("got %+v", got)
	}
}
