package server

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/route"
)

// maxSubscriptions bounds the filters that one client holds, each of which costs
// memory for as long as its session lives; a terminal has four, a person's tool a
// handful.
const maxSubscriptions = 1_024

// subscribe does what a SUBSCRIBE asks for. What is retained is sent after the
// SUBACK.
func (s *Server) subscribe(p *peer, pk packets.Packet) error {
	if s.tooMany(p, pk.Filters) {
		if left, due := s.spare.Due(p.identity.Name+" subscriptions", time.Now()); due {
			s.log.Warn("a client wants too many subscriptions and is disconnected",
				"user", p.identity.Name, "client_id", p.client.ID, "most", maxSubscriptions, "left_out", left)
		}
		return packets.ErrQuotaExceeded
	}
	ack := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Suback}, PacketID: pk.PacketID}
	for _, sub := range pk.Filters {
		code, existed := s.grant(p, sub)
		if code > packets.CodeGrantedQos2.Code && p.client.Properties.ProtocolVersion < 5 {
			code = packets.ErrUnspecifiedError.Code
		}
		ack.ReasonCodes = append(ack.ReasonCodes, code)
		if code <= packets.CodeGrantedQos2.Code {
			s.replay(p, sub, existed)
		}
	}
	s.keepKnown(p.client)
	return p.client.WritePacket(ack)
}

// grant notes a subscription, or says why not. existed reports whether the client
// had it before.
func (s *Server) grant(p *peer, sub packets.Subscription) (code byte, existed bool) {
	switch {
	case !mqtt.IsValidFilter(sub.Filter, false):
		return packets.ErrTopicFilterInvalid.Code, false
	case sub.NoLocal && mqtt.IsSharedFilter(sub.Filter):
		return packets.ErrProtocolViolationInvalidSharedNoLocal.Code, false
	case !s.judge.MayRead(p.identity, sub.Filter):
		if s.broker.Options.Capabilities.Compatibilities.ObscureNotAuthorized {
			return packets.ErrUnspecifiedError.Code, false
		}
		return packets.ErrNotAuthorized.Code, false
	}
	added := s.readers.Set(sub.Filter, p.client.ID, route.Options{
		Identifier: sub.Identifier, QoS: sub.Qos, NoLocal: sub.NoLocal, RetainAsPublished: sub.RetainAsPublished,
	})
	if added {
		p.filters.add(strings.Clone(sub.Filter)) // not the packet that it came in
	}
	s.countSubscriptions()
	return sub.Qos, !added
}

// tooMany reports whether a SUBSCRIBE takes a client over the bound. A filter that
// it holds already counts once.
func (s *Server) tooMany(p *peer, asked packets.Subscriptions) bool {
	total := p.filters.len()
	for _, sub := range asked {
		if !s.readers.Has(sub.Filter, p.client.ID) {
			total++
		}
	}
	return total > maxSubscriptions
}

// filters are those that a session subscribed to. The zero value is none. Safe for
// concurrent use: a session may expire while a client comes back for it.
type filters struct {
	mu   sync.Mutex
	held []string
}

func (f *filters) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held)
}

func (f *filters) add(filters ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, filters...)
}

func (f *filters) remove(filter string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = slices.DeleteFunc(f.held, func(one string) bool { return one == filter })
}

// take empties it, and returns what it held.
func (f *filters) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.held
	f.held = nil
	return held
}

// unsubscribe does what an UNSUBSCRIBE asks for.
func (s *Server) unsubscribe(p *peer, pk packets.Packet) error {
	ack := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsuback}, PacketID: pk.PacketID}
	for _, sub := range pk.Filters {
		code := packets.CodeNoSubscriptionExisted.Code
		if s.readers.Remove(sub.Filter, p.client.ID) {
			code = packets.CodeSuccess.Code
			p.filters.remove(sub.Filter)
		}
		ack.ReasonCodes = append(ack.ReasonCodes, code)
	}
	s.countSubscriptions()
	return p.client.WritePacket(ack)
}

// unsubscribeAll ends the subscriptions of a session that is over.
func (s *Server) unsubscribeAll(p *peer) {
	for _, filter := range p.filters.take() {
		s.readers.Remove(filter, p.client.ID)
	}
	s.countSubscriptions()
}

func (s *Server) countSubscriptions() {
	atomic.StoreInt64(&s.broker.Info.Subscriptions, int64(s.readers.Len()))
}
