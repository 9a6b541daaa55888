package site

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// Ask asks as the writer's participant, over a connection of its own, and wants
// an answer.
func (s *Site) Ask(w *history.Writer, verb protocol.Verb, payload string) protocol.Reply {
	s.t.Helper()
	reply, outcome := s.Try(w, verb, payload, programs.Patience)
	if outcome == history.OutcomeUnknown {
		s.t.Fatalf("no answer to %s %s", verb, payload)
	}
	return reply
}

// Try is Ask by a client that gives up: with nobody to connect to, when the
// connection ends, and after patience. Then the outcome is unknown. It is safe
// for concurrent use.
func (s *Site) Try(w *history.Writer, verb protocol.Verb, payload string, patience time.Duration) (protocol.Reply, history.Outcome) {
	s.t.Helper()
	s.mu.Lock()
	user := s.names[w]
	s.mu.Unlock()
	topic, answer := "muster/v1/req/"+user+"/"+string(verb), "muster/v1/rep/"+user+"/chaos"
	answers := make(chan []byte, 8)
	conn, err := fleet.Dial(s.t.Context(), s.Addr, fleet.Login{User: user}, func(m fleet.Message) { answers <- m.Payload })
	if err != nil {
		return protocol.Reply{}, history.OutcomeUnknown
	}
	defer conn.Close()
	if conn.Subscribe(s.t.Context(), answer) != nil {
		return protocol.Reply{}, history.OutcomeUnknown
	}
	answered, err := w.Asked(topic, []byte(payload))
	if err != nil {
		s.t.Error(err)
		return protocol.Reply{}, history.OutcomeUnknown
	}
	_ = conn.Send(fleet.Outgoing{Topic: topic, Payload: []byte(payload), ResponseTopic: answer}) // a failure ends the connection
	var reply protocol.Reply
	outcome, body := history.OutcomeUnknown, []byte(nil)
	select {
	case body = <-answers:
		outcome = history.OutcomeRefused
		if err = json.Unmarshal(body, &reply); reply.OK {
			outcome = history.OutcomeOK
		}
	case <-conn.Done():
	case <-time.After(patience):
	}
	if err := errors.Join(err, answered(outcome, body)); err != nil {
		s.t.Error(err)
	}
	return reply, outcome
}

// Watch writes down what is told of all runs until headquarters goes away.
func (s *Site) Watch(w *history.Writer) {
	s.t.Helper()
	conn, err := fleet.Dial(s.t.Context(), s.Addr, fleet.Login{User: "watch"}, func(m fleet.Message) {
		if err := w.Got(m.Topic, m.Payload, m.Retained); err != nil {
			s.t.Error(err)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	const all = "muster/v1/runs/#"
	if err := errors.Join(w.Subscribed(all), conn.Subscribe(s.t.Context(), all)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
}

// Sample writes down what a process uses, ten times a second, until stop is
// called.
func (s *Site) Sample(w *history.Writer, name string, p *programs.Process) (stop func()) {
	ctx := s.t.Context()
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if sample, ok := history.Measure(p.PID()); ok {
				if err := w.Sampled(name, p.PID(), sample); err != nil {
					s.t.Error(err)
				}
			}
		}
	})
	return func() { close(done); all.Wait() }
}
