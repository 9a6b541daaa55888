package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/door"
)

// attend serves one connection from its CONNECT to its end. It stands in for the
// library's own loop, which holds 16 KiB of stack and a second goroutine for a
// connection that is idle; what a packet means is the library's. It waits in this
// function alone, so that a waiting goroutine's stack is small.
func (s *Server) attend(p *peer, listener string) error {
	if err := p.Await(); err != nil {
		return err
	}
	if err := s.begin(p, listener); err != nil {
		return err
	}
	for !p.client.Closed() {
		if err := p.SetReadDeadline(p.patience()); err != nil {
			return err
		}
		if err := p.Await(); err != nil {
			return err
		}
		if err := s.process(p); err != nil {
			return err
		}
	}
	return nil
}

// patience is until when the client may be silent: one and a half times its keep
// alive (MQTT 5, 3.1.2.10); the zero time: for ever.
func (p *peer) patience() time.Time {
	if p.client.State.Keepalive == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(p.client.State.Keepalive) * time.Second * 3 / 2)
}

// next decodes the packet that has come.
func (s *Server) next(p *peer) (packets.Packet, error) {
	first, body := p.Packet()
	pk := packets.Packet{ProtocolVersion: p.client.Properties.ProtocolVersion}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return pk, err
	}
	pk.FixedHeader.Remaining = len(body)
	atomic.AddInt64(&s.broker.Info.BytesReceived, int64(len(body)+2))
	body = bytes.Clone(body) // the packet keeps parts of it
	p.Skip()
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Puback:
		err = pk.PubackDecode(body)
	case packets.Pubrec:
		err = pk.PubrecDecode(body)
	case packets.Pubrel:
		err = pk.PubrelDecode(body)
	case packets.Pubcomp:
		err = pk.PubcompDecode(body)
	case packets.Subscribe:
		err = pk.SubscribeDecode(body)
	case packets.Unsubscribe:
		err = pk.UnsubscribeDecode(body)
	case packets.Disconnect:
		err = pk.DisconnectDecode(body)
	case packets.Auth:
		err = pk.AuthDecode(body)
	case packets.Pingreq:
	default:
		err = fmt.Errorf("packet type %d", pk.FixedHeader.Type) // the guard lets none through
	}
	return pk, err
}

// begin takes a client in by its CONNECT, or says why not.
func (s *Server) begin(p *peer, listener string) error {
	cl := s.broker.NewClient(p, listener, "", false)
	p.client = cl
	pk, err := s.next(p)
	if err != nil {
		return err
	}
	pk = s.strip(p, pk)
	pk.Connect.ClientIdentifier = strings.Clone(pk.Connect.ClientIdentifier) // not the packet, with its password
	cl.ParseConnect(listener, pk)
	if code := valid(cl, pk); code != packets.CodeSuccess {
		_ = s.broker.SendConnack(cl, code, false, nil) // it is closed either way
		return code
	}
	if code := s.admit(p, cl, pk); code != packets.CodeSuccess {
		s.refuse(cl, code)
		return code
	}
	p.begun = true
	atomic.AddInt64(&s.broker.Info.ClientsConnected, 1)
	present := s.inherit(cl, pk.Connect.Clean)
	s.broker.Clients.Add(cl)
	if err := s.broker.SendConnack(cl, packets.CodeSuccess, present, nil); err != nil {
		return err
	}
	s.wills.drop(cl.ID)
	if present {
		if err := cl.ResendInflightMessages(true); err != nil {
			return err
		}
	}
	s.seats.Announce(cl.ID, p.session, func() { s.report(p, p.session, true) })
	return nil
}

// valid checks what the framing guard does not.
func valid(cl *mqtt.Client, pk packets.Packet) packets.Code {
	if pk.Connect.WillFlag && len(pk.Connect.WillPayload) == 0 {
		pk.Connect.WillPayload = []byte{0} // the library takes an empty one (MQTT 5, 3.1.3.4) for none
	}
	if code := pk.ConnectValidate(); code != packets.CodeSuccess {
		return code
	}
	if cl.Properties.ProtocolVersion < 5 && !pk.Connect.Clean && pk.Connect.ClientIdentifier == "" {
		return packets.ErrUnspecifiedError
	}
	return packets.CodeSuccess
}

// refuse tells a client why it is not let in.
func (s *Server) refuse(cl *mqtt.Client, code packets.Code) {
	level := slog.LevelInfo
	if code == door.ErrLocked || code == errFlapping {
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, "refused a client", "client_id", cl.ID, "remote", cl.Net.Remote, "reason", code.Reason)
	_ = s.broker.SendConnack(cl, refusal(cl, code), false, nil) // it is closed either way
}

// inherit gives a client the session that sleeps under its id, if it wants one,
// and ends that session otherwise. Its seat sees to it that no connection has the
// session.
func (s *Server) inherit(cl *mqtt.Client, clean bool) (present bool) {
	old, ok := s.broker.Clients.Get(cl.ID)
	if !ok {
		return false
	}
	if clean || !persistent(old) {
		s.unsubscribeAll(peerOf(old))
		old.ClearInflights()
		return false
	}
	if old.State.Inflight.Len() > 0 {
		cl.State.Inflight = old.State.Inflight.Clone()
		cl.State.Inflight.ResetReceiveQuota(int32(s.broker.Options.Capabilities.ReceiveMaximum))
	}
	peerOf(cl).filters.add(peerOf(old).filters.take()...) // the index has them by the client's id
	return true
}

// process does what a packet of the client asks for, and then sends what waits for
// the client: retained messages after the SUBACK, and more as it acknowledges.
func (s *Server) process(p *peer) error {
	cl := p.client
	if first, body := p.Packet(); first>>4 == packets.Puback {
		s.acknowledged(p, uint16(body[0])<<8|uint16(body[1]))
		p.Skip()
	} else if err := s.perform(p); err != nil {
		var code packets.Code
		if errors.As(err, &code) && cl.Properties.ProtocolVersion == 5 && code.Code >= packets.ErrUnspecifiedError.Code {
			_ = s.broker.DisconnectClient(cl, code) // ends it either way
		}
		return err
	}
	s.resume(p)
	s.drain(p)
	return nil
}

// acknowledged forgets a message that the client has.
func (s *Server) acknowledged(p *peer, id uint16) {
	if p.client.State.Inflight.Delete(id) {
		p.client.State.Inflight.IncreaseSendQuota()
		atomic.AddInt64(&s.broker.Info.Inflight, -1)
	}
	atomic.AddInt64(&s.broker.Info.PacketsReceived, 1)
}

// perform hands a packet to headquarters or to the library.
func (s *Server) perform(p *peer) error {
	pk, err := s.next(p)
	if err != nil {
		return err
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		if s.straight(p, pk) {
			s.answer(p, pk)
			return nil
		}
	case packets.Subscribe:
		if code := pk.SubscribeValidate(); code != packets.CodeSuccess {
			return code
		}
		return s.subscribe(p, pk)
	case packets.Unsubscribe:
		if code := pk.UnsubscribeValidate(); code != packets.CodeSuccess {
			return code
		}
		return s.unsubscribe(p, pk)
	case packets.Pingreq:
		s.keepKnown(p.client)
	case packets.Disconnect:
		limit := s.broker.Options.Capabilities.MaximumSessionExpiryInterval
		pk.Properties.SessionExpiryInterval = min(pk.Properties.SessionExpiryInterval, limit)
	}
	if pk.FixedHeader.Type == packets.Publish || pk.FixedHeader.Type == packets.Pubrel {
		pk.PacketID = p.ids.Inbound(p.client.State.Inflight, pk)
	}
	if pk.FixedHeader.Type == packets.Publish && passedOver(pk) {
		return s.refusePublish(p, pk)
	}
	return s.broker.InjectPacket(p.client, pk)
}

// passedOver reports whether the library would drop a message without a word, whoever
// sends it: its topic is the broker's own ($SYS), or a broken name of a shared
// subscription.
func passedOver(pk packets.Packet) bool {
	return !mqtt.IsValidFilter(pk.TopicName, true) && pk.PublishValidate(0) == packets.CodeSuccess
}

// refusePublish answers a message that nobody may publish as the library answers one
// that its sender may not.
func (s *Server) refusePublish(p *peer, pk packets.Packet) error {
	switch ack := packets.Puback; {
	case pk.FixedHeader.Qos == 0:
		return nil
	case p.client.Properties.ProtocolVersion < 5:
		return packets.ErrNotAuthorized // which ends the connection
	default:
		if pk.FixedHeader.Qos == 2 {
			ack = packets.Pubrec
		}
		return p.client.WritePacket(packets.Packet{
			FixedHeader: packets.FixedHeader{Type: ack}, PacketID: pk.PacketID, ReasonCode: packets.ErrNotAuthorized.Code,
			Properties: packets.Properties{ReasonString: packets.ErrNotAuthorized.Reason},
		})
	}
}

// straight reports whether a message is one for headquarters that the library has
// nothing to do with.
func (s *Server) straight(p *peer, pk packets.Packet) bool {
	return s.opts.Intake != nil && pk.FixedHeader.Qos == 1 && s.rules.Consumed(pk.TopicName) &&
		pk.PublishValidate(0) == packets.CodeSuccess && s.judge.MayPublish(p.identity, pk.TopicName)
}

// answer hands a message to headquarters, and acknowledges it once that has it.
func (s *Server) answer(p *peer, pk packets.Packet) {
	atomic.AddInt64(&s.broker.Info.PacketsReceived, 1)
	atomic.AddInt64(&s.broker.Info.MessagesReceived, 1)
	if s.takeIn(p, pk) {
		s.acknowledge(p, pk.PacketID)
	}
}

// end cleans up after a connection, whatever happened to it. After a panic nothing
// of its session is believed.
func (s *Server) end(p *peer, err error, panicked bool) {
	cl := p.client
	cl.Stop(err)
	if p.begun {
		atomic.AddInt64(&s.broker.Info.ClientsConnected, -1)
		if err != nil {
			s.leaveWill(p)
		}
	}
	if known, ok := s.broker.Clients.Get(cl.ID); !ok || known != cl || persistent(cl) && !panicked {
		return
	}
	s.unsubscribeAll(p)
	cl.ClearInflights()
	s.broker.Clients.Delete(cl.ID)
}
