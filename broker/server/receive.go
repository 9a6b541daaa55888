package server

import (
	"github.com/mochi-mqtt/server/v2/packets"
)

// receive decides about a message whose topic its sender may publish to.
func (s *Server) receive(p *peer, pk packets.Packet) (packets.Packet, error) {
	switch {
	case s.opts.Intake != nil && s.rules.Consumed(pk.TopicName):
		return pk, s.takeIn(p, pk)
	case s.opts.ManagedPresence && s.rules.OwnPresence(p.identity, pk.TopicName):
		return pk, packets.CodeSuccessIgnore
	}
	// A retained message that may not be kept is delivered like any other: a
	// subscription with "retain as published" still shows the flag, by which a
	// dispatcher on the other side of the wire knows a retained command.
	if pk.FixedHeader.Retain && s.judge.MayRetain(p.identity, pk.TopicName) {
		s.keep(pk)
	}
	return pk, nil
}

// takeIn hands a message to headquarters and returns once that has it.
func (s *Server) takeIn(p *peer, pk packets.Packet) error {
	panicked, err := recovered(func() error {
		return s.opts.Intake(s.ctx, Message{
			Topic: pk.TopicName, Payload: pk.Payload, Retained: pk.FixedHeader.Retain,
			ResponseTopic: pk.Properties.ResponseTopic, CorrelationData: pk.Properties.CorrelationData,
			Signature: signatureOf(pk.Properties.User),
			ClientID:  p.client.ID, User: p.identity.Name, Role: string(p.identity.Role),
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
