package app

import (
	"context"

	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// served are the offers that the embedded broker asks for when somebody subscribes:
// it keeps none of what may be a hundred thousand.
type served struct{ hq *headquarters }

// Serves tells offers from everything else.
func (s served) Serves(topic string) bool {
	addr, ok := s.hq.topics.Parse(topic)
	return ok && addr.Kind == protocol.KindOffer
}

// Topics names the open offers that a filter matches.
func (s served) Topics(ctx context.Context, filter string) (names []string, err error) {
	if _, _, some := s.hq.topics.OfferFilter(filter); some {
		s.hq.hands.Lend(func() { names, err = s.hq.offer.Retained(ctx, filter) })
	}
	return names, err
}

// Message is the offer on a topic.
func (s served) Message(ctx context.Context, topic string) (out transport.Outbound, there bool, err error) {
	addr, ok := s.hq.topics.Parse(topic)
	if !ok || addr.Kind != protocol.KindOffer {
		return out, false, nil
	}
	s.hq.hands.Lend(func() { out, there, err = s.hq.offer.Message(ctx, addr.Store, addr.Task) })
	return out, there, err
}
