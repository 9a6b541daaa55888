package server

import (
	"context"
	"time"
)

// Served are retained messages that are made when somebody subscribes. Its methods
// are called from each client's own goroutine; the context ends when the broker stops.
type Served interface {
	// Serves reports whether what is retained on the topic is served. It is not kept.
	Serves(topic string) bool
	// Topics names what is retained now and matches the filter.
	Topics(ctx context.Context, filter string) ([]string, error)
	// Message is what is retained on one of them now; false: nothing any more.
	Message(ctx context.Context, topic string) (Outgoing, bool, error)
}

// Subscribed reports whether any client subscribes to a topic. Whoever subscribes
// later is sent what Served has by then.
func (s *Server) Subscribed(topic string) bool { return s.readers.Any(topic) }

func (s *Server) serves(topic string) bool {
	return s.opts.Served != nil && s.opts.Served.Serves(topic)
}

// servedTopics names what a subscription is to be sent of what is served.
func (s *Server) servedTopics(p *peer, filter string) []string {
	if s.opts.Served == nil {
		return nil
	}
	names, err := s.opts.Served.Topics(s.ctx, filter)
	if err != nil {
		s.log.Warn("a subscriber is not sent what is retained", "user", p.identity.Name, "filter", filter, "error", err)
	}
	return names
}

// serve sends what is retained on a served topic, if anything is.
func (s *Server) serve(p *peer, r *replay, topic string) error {
	out, there, err := s.opts.Served.Message(s.ctx, topic)
	if err != nil {
		s.log.Warn("a subscriber is not sent what is retained", "user", p.identity.Name, "topic", topic, "error", err)
		there = false
	}
	if !there {
		return nil
	}
	return s.repeat(p, r.sub, asRetained(out))
}

// asRetained is a message of headquarters as it would be kept.
func asRetained(out Outgoing) *retained {
	m := &retained{Topic: out.Topic, Payload: out.Payload, Extra: extras{qos: 1}}
	pk := out.packet()
	if out.Expiry > 0 {
		m.Expires = time.Now().Add(time.Duration(pk.Properties.MessageExpiryInterval) * time.Second)
	}
	m.Extra.properties = kept(pk.Properties)
	return m
}
