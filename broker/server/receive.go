package server

import (
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// receive decides about a message whose topic its sender may publish to.
func (s *Server) receive(p *peer, pk packets.Packet) (packets.Packet, error) {
	switch {
	case s.opts.Intake != nil && s.rules.Consumed(pk.TopicName):
		if !s.takeIn(p, pk) {
			return pk, packets.ErrRejectPacket
		}
		return pk, packets.CodeSuccessIgnore
	case s.opts.ManagedPresence && s.rules.OwnPresence(p.identity, pk.TopicName):
		return pk, packets.CodeSuccessIgnore
	}
	// A retained message that may not be kept is delivered like any other: a
	// subscription with "retain as published" still shows the flag, by which a
	// dispatcher on the other side of the wire knows a retained command.
	if pk.FixedHeader.Retain && s.judge.MayRetain(p.identity, pk.TopicName) {
		s.keep(pk)
	}
	s.route(pk, atOnce)
	return pk, packets.CodeSuccessIgnore
}

// takeIn hands a message to headquarters and returns once that has it, or has not.
func (s *Server) takeIn(p *peer, pk packets.Packet) (taken bool) {
	panicked, err := recovered(func() error {
		return s.opts.Intake(s.ctx, Message{
			Topic: pk.TopicName, Payload: pk.Payload, Retained: pk.FixedHeader.Retain,
			ResponseTopic: pk.Properties.ResponseTopic, CorrelationData: pk.Properties.CorrelationData,
			Signature: signatureOf(pk.Properties.User),
			ClientID:  p.client.ID, User: p.identity.Name, Role: string(p.identity.Role),
		})
	})
	switch left, due := int64(0), false; {
	case panicked:
		s.log.Error("intake panicked", "error", err, "user", p.identity.Name)
	case err != nil:
		if left, due = s.spare.Due(p.identity.Name+" intake", time.Now()); due {
			s.log.Warn("intake did not take a message, it stays unacknowledged",
				"error", err, "user", p.identity.Name, "topic", pk.TopicName, "left_out", left)
		}
	}
	return err == nil
}
