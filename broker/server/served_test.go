package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/broker/server"
)

// shelf serves what is on it, under stores/0001/tasks.
type shelf struct {
	mu   sync.Mutex
	on   map[string]server.Outgoing
	fail error
}

func (s *shelf) put(out server.Outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on == nil {
		s.on = map[string]server.Outgoing{}
	}
	if s.on[out.Topic] = out; len(out.Payload) == 0 {
		delete(s.on, out.Topic)
	}
}

func (s *shelf) Serves(topic string) bool { return strings.Contains(topic, "/tasks/") }

func (s *shelf) Topics(_ context.Context, filter string) (names []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic := range s.on {
		if strings.HasPrefix(topic, strings.TrimSuffix(strings.TrimSuffix(filter, "+"), "#")) {
			names = append(names, topic)
		}
	}
	return names, s.fail
}

func (s *shelf) Message(_ context.Context, topic string) (out server.Outgoing, there bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, there = s.on[topic]
	return out, there, nil
}

// TestWhatIsServedIsSentAsIfItWereKept, to whoever subscribes, as it is then; those
// who subscribed before hear of it when it is published.
func TestWhatIsServedIsSentAsIfItWereKept(t *testing.T) {
	t.Parallel()
	by := &shelf{}
	s := start(t, anonymous(), server.Options{Served: by})
	topic := root + "/stores/0001/tasks/t1"
	early := connect(t, s, as("0001/pos1"))
	if s.Subscribed(topic) {
		t.Error("nobody subscribes yet")
	}
	early.subscribe(root + "/stores/0001/tasks/+")
	if !s.Subscribed(topic) || s.Subscribed(root+"/stores/0002/tasks/t1") {
		t.Error("who subscribes is not told")
	}
	want := signer(t).Sign(topic, []byte("offer"))
	out := server.Outgoing{Topic: topic, Payload: []byte("offer"), Retain: true, Expiry: time.Hour, Signature: want, CorrelationData: []byte("c")}
	by.put(out)
	if err := s.Publish(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if got := early.next(); string(got.Payload) != "offer" || got.Retain || carried(got) != want {
		t.Errorf("published: %+v", got)
	}
	late := connect(t, s, as("0001/pos2"))
	late.subscribe(root + "/stores/0001/tasks/+")
	got := late.next()
	if string(got.Payload) != "offer" || !got.Retain || got.QoS != 1 || carried(got) != want || string(got.Properties.CorrelationData) != "c" ||
		got.Properties.MessageExpiry == nil || *got.Properties.MessageExpiry < 3590 || *got.Properties.MessageExpiry > 3600 {
		t.Errorf("served: %+v, %+v", got, got.Properties)
	}
	by.put(server.Outgoing{Topic: topic})
	last := connect(t, s, as("0001/pos3"))
	last.subscribe(root + "/stores/0001/tasks/+") // the broker kept nothing
	marker(t, s, root+"/stores/0001/tasks/t2", last)
	by.mu.Lock()
	by.fail = errors.New("busy")
	by.mu.Unlock()
	if code := connect(t, s, as("0001/pos4")).subscribe(root + "/stores/0001/tasks/+"); code != 1 {
		t.Errorf("subscribed with code %d while nothing can be served", code)
	}
}

// TestAllThatIsServedComes, more than a client may have unacknowledged, beside what is
// kept.
func TestAllThatIsServedComes(t *testing.T) {
	t.Parallel()
	by := &shelf{}
	s := start(t, anonymous(), server.Options{Served: by})
	const tasks = 3_000
	want := map[string]bool{root + "/info": true}
	for n := range tasks {
		topic := fmt.Sprintf("%s/stores/%04d/tasks/t", root, n)
		by.put(server.Outgoing{Topic: topic, Payload: []byte("offer")})
		want[topic] = true
	}
	publish(t, s, root+"/info", "{}", true)
	c := connect(t, s, as("dispatcher"))
	c.subscribe(root + "/#")
	for range tasks + 1 {
		got := c.next()
		if !want[got.Topic] {
			t.Fatalf("%s came twice, or should not have", got.Topic)
		}
		delete(want, got.Topic)
	}
}
