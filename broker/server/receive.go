package server

import (
	"slices"

	"github.com/mochi-mqtt/server/v2/packets"
)

// RetainedProperty is the user property, with value "true", on a message that
// its sender published retained although it may not. Such a message is
// delivered once to who is subscribed, and never stored. Clients below version
// 5 see no property.
const RetainedProperty = "muster-retained"

// receive decides about a message whose topic its sender may publish to.
func (s *Server) receive(p *peer, pk packets.Packet) (packets.Packet, error) {
	switch {
	case s.opts.Intake != nil && s.rules.Consumed(pk.TopicName):
		return pk, s.takeIn(p, pk)
	case s.opts.ManagedPresence && s.rules.OwnPresence(p.identity, pk.TopicName):
		return pk, packets.CodeSuccessIgnore
	}
	switch {
	case !pk.FixedHeader.Retain:
	case s.rules.MayRetain(p.identity, pk.TopicName):
		s.keep(pk)
	default:
		pk.FixedHeader.Retain = false
		pk.Properties.User = append(slices.Clone(pk.Properties.User),
			packets.UserProperty{Key: RetainedProperty, Val: "true"})
	}
	return pk, nil
}

// takeIn hands a message to headquarters and returns once that has it.
func (s *Server) takeIn(p *peer, pk packets.Packet) error {
	err, panicked := recovered(func() error {
		return s.opts.Intake(s.ctx, Message{
			Topic: pk.TopicName, Payload: pk.Payload, Retained: pk.FixedHeader.Retain,
			ResponseTopic: pk.Properties.ResponseTopic, CorrelationData: pk.Properties.CorrelationData,
			ClientID: p.client.ID, User: p.identity.Name, Role: string(p.identity.Role),
		})
	})
	switch {
	case panicked:
		s.log.Error("intake panicked", "error", err, "user", p.identity.Name)
		return packets.ErrRejectPacket
	case err != nil:
		s.log.Warn("intake did not take a message, it stays unacknowledged",
			"error", err, "user", p.identity.Name, "topic", pk.TopicName)
		return packets.ErrRejectPacket
	}
	return packets.CodeSuccessIgnore
}
