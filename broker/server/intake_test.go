package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
)

func TestIntakeSeesMessageBeforeAcknowledgement(t *testing.T) {
	taken := make(chan server.Message, 10)
	s := start(t, anonymous(), server.Options{Intake: func(_ context.Context, m server.Message) error {
		taken <- m
		return nil
	}})
	watcher := connect(t, s, as("olga"))
	if code := watcher.subscribe(root + "/stores/#"); code != 1 {
		t.Fatalf("subscribe: 0x%02x", code)
	}
	pos := connect(t, s, as("0001/pos1"))
	topic := root + "/stores/0001/terminals/pos1/claim"
	code := pos.publish(&paho.Publish{Topic: topic, Payload: []byte(`{"a":1}`), QoS: 1, Retain: true,
		Properties: &paho.PublishProperties{ResponseTopic: "x/y", CorrelationData: []byte("c"),
			User: paho.UserProperties{{Key: "k", Value: "v"}}}})
	if code != 0 {
		t.Fatalf("PUBACK 0x%02x", code)
	}
	select {
	case m := <-taken:
		if m.Topic != topic || string(m.Payload) != `{"a":1}` || !m.Retained || m.ResponseTopic != "x/y" ||
			string(m.CorrelationData) != "c" || m.User != "0001/pos1" || m.Role != "terminal" || m.ClientID != "0001/pos1" {
			t.Errorf("intake got %+v", m)
		}
	default:
		t.Fatal("acknowledged before the intake had it")
	}
	// Neither delivered nor retained: the marker comes first for both watchers.
	late := connect(t, s, as("oscar"))
	late.subscribe(root + "/stores/#")
	if err := s.Publish(t.Context(), server.Outgoing{Topic: root + "/stores/0001/tasks/marker", Payload: []byte("m")}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client{watcher, late} {
		if got := c.next(); got.Topic != root+"/stores/0001/tasks/marker" {
			t.Errorf("delivered %s", got.Topic)
		}
	}
}

func TestFailedIntakeIsNeverAcknowledged(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("disk full") },
		"panic": func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			tried := make(chan struct{})
			s := start(t, anonymous(), server.Options{Intake: func(_ context.Context, m server.Message) error {
				if string(m.Payload) == "good" {
					return nil
				}
				close(tried)
				return fail()
			}})
			pos := connect(t, s, as("0001/pos1"))
			topic := root + "/stores/0001/terminals/pos1/result"
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			outcome := make(chan error, 1)
			go func() {
				_, err := pos.Publish(ctx, &paho.Publish{Topic: topic, Payload: []byte("bad"), QoS: 1})
				outcome <- err
			}()
			receive(t, tried)
			if code := pos.say(topic, "good"); code != 0 {
				t.Fatalf("PUBACK 0x%02x", code)
			}
			cancel() // the later message is acknowledged, so the earlier one never will be
			if err := receive(t, outcome); err == nil {
				t.Error("a message that was not taken in was acknowledged")
			}
		})
	}
}

func TestPublishWithExpiryAndRetain(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	offer := server.Outgoing{Topic: root + "/stores/0001/tasks/t1", Payload: []byte("offer"), Retain: true, Expiry: time.Minute}
	if err := s.Publish(t.Context(), offer); err != nil {
		t.Fatal(err)
	}
	pos := connect(t, s, as("0001/pos1"))
	pos.subscribe(root + "/stores/0001/tasks/+")
	got := pos.next()
	if !got.Retain || got.QoS != 1 || string(got.Payload) != "offer" {
		t.Errorf("got %+v", got)
	}
	if e := got.Properties.MessageExpiry; e == nil || *e == 0 || *e > 60 {
		t.Errorf("expiry %v", e)
	}
	offer.Payload = nil
	if err := s.Publish(t.Context(), offer); err != nil {
		t.Fatal(err)
	}
	if got := pos.next(); len(got.Payload) != 0 {
		t.Errorf("withdrawal has payload %q", got.Payload)
	}
	second := connect(t, s, as("0001/pos2"))
	second.subscribe(root + "/stores/0001/tasks/+")
	offer.Topic, offer.Payload, offer.Retain = root+"/stores/0001/tasks/t2", []byte("live"), false
	if err := s.Publish(t.Context(), offer); err != nil {
		t.Fatal(err)
	}
	if got := second.next(); string(got.Payload) != "live" {
		t.Errorf("withdrawn offer still delivered: %+v", got)
	}
}
