package server

import (
	"context"
	"log/slog"
	"slices"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/mochi-mqtt/server/v2/system"

	"muster/broker/server/access"
	"muster/broker/server/door"
)

// hook is how the MQTT library asks us. Its methods run on goroutines of the
// library, some of them outside any connection, so none may panic.
type hook struct {
	mqtt.HookBase
	s *Server
}

func (h *hook) ID() string { return "muster" }

func (h *hook) Provides(b byte) bool {
	return slices.Contains([]byte{
		mqtt.OnPacketRead, mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablished,
		mqtt.OnACLCheck, mqtt.OnPublish, mqtt.OnPacketEncode, mqtt.OnWill, mqtt.OnWillSent,
		mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnPacketProcessed, mqtt.OnClientExpired, mqtt.OnSysInfoTick,
		mqtt.OnPublishDropped,
	}, b)
}

// safely runs f and logs a panic instead of passing it on; ok is false then.
func (h *hook) safely(what string, f func()) (ok bool) {
	panicked, err := recovered(func() error { f(); return nil })
	if panicked {
		h.s.log.Error("a broker hook panicked", "hook", what, "error", err)
	}
	return !panicked
}

// OnPacketRead changes packets before the library sees them.
func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	p := peerOf(cl)
	if pk.FixedHeader.Type == packets.Subscribe && tooMany(cl, pk.Filters) {
		if left, due := h.s.spare.Due(p.identity.Name+" subscriptions", time.Now()); due {
			h.s.log.Warn("a client wants too many subscriptions and is disconnected",
				"user", p.identity.Name, "client_id", cl.ID, "most", maxSubscriptions, "left_out", left)
		}
		_ = h.s.broker.DisconnectClient(cl, packets.ErrQuotaExceeded) // it is closed either way
		return pk, packets.ErrRejectPacket
	}
	switch pk.FixedHeader.Type {
	case packets.Connect:
		pk = h.s.strip(p, pk)
	case packets.Disconnect:
		limit := h.s.broker.Options.Capabilities.MaximumSessionExpiryInterval
		pk.Properties.SessionExpiryInterval = min(pk.Properties.SessionExpiryInterval, limit)
	case packets.Publish, packets.Subscribe, packets.Unsubscribe, packets.Pubrel:
		pk.PacketID = p.ids.Inbound(cl.State.Inflight, pk)
	}
	return pk, nil
}

// OnConnect lets a client in or says why not.
func (h *hook) OnConnect(cl *mqtt.Client, pk packets.Packet) error {
	code := packets.ErrServerUnavailable
	h.safely("connect", func() { code = h.s.admit(peerOf(cl), cl, pk) })
	if code == packets.CodeSuccess {
		return nil
	}
	level := slog.LevelInfo
	if code == door.ErrLocked || code == errFlapping {
		level = slog.LevelDebug
	}
	h.s.log.Log(context.Background(), level, "refused a client", "client_id", cl.ID, "remote", cl.Net.Remote, "reason", code.Reason)
	_ = h.s.broker.SendConnack(cl, refusal(cl, code), false, nil) // it is closed either way
	return code
}

// OnConnectAuthenticate confirms what OnConnect decided.
func (h *hook) OnConnectAuthenticate(cl *mqtt.Client, _ packets.Packet) bool {
	p := peerOf(cl)
	return p != nil && p.seated && p.identity.Name != ""
}

// OnSessionEstablished runs after CONNACK was sent.
func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	p := peerOf(cl)
	h.s.seats.Announce(cl.ID, p.session, func() { h.s.report(p, p.session, true) })
}

// OnACLCheck judges a publish, a subscription, and each delivery.
func (h *hook) OnACLCheck(cl *mqtt.Client, topic string, write bool) (allowed bool) {
	p := peerOf(cl)
	if p == nil {
		return false
	}
	h.safely("access", func() {
		if write {
			allowed = h.s.judge.MayPublish(p.identity, topic)
		} else {
			allowed = h.s.judge.MayRead(p.identity, topic)
		}
	})
	return allowed
}

// OnPublish takes in what is for headquarters, and otherwise sees to it that
// nothing is retained that must not be. The errors it returns are the bare
// codes that the library compares with: CodeSuccessIgnore acknowledges and goes
// no further, ErrRejectPacket never acknowledges.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	p := peerOf(cl)
	verdict := error(packets.ErrRejectPacket)
	h.safely("publish", func() { pk, verdict = h.s.receive(p, pk) })
	return pk, verdict
}

// OnPacketEncode runs before a packet is written, on the goroutine that writes:
// waiting here for a slow reader holds up nobody else.
func (h *hook) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	p := peerOf(cl)
	if p == nil {
		return pk
	}
	h.safely("encode", func() {
		switch pk.FixedHeader.Type {
		case packets.Connack:
			pk = h.s.describe(p, pk)
			if pk.SessionPresent { // what is in flight is sent next
				h.s.outsize(p, cl.State.Inflight.GetAll(false)...)
			}
		case packets.Puback, packets.Pubrec, packets.Pubcomp, packets.Suback, packets.Unsuback:
			pk.PacketID = p.ids.Outbound(pk)
			p.WaitRoom()
		case packets.Disconnect: // may be written by somebody else's goroutine
		case packets.Publish:
			h.s.outsize(p, pk)
			p.WaitRoom()
		default:
			p.WaitRoom()
		}
	})
	return pk
}

// describe adds to a CONNACK what the library leaves out.
func (s *Server) describe(p *peer, pk packets.Packet) packets.Packet {
	if pk.ReasonCode != packets.CodeSuccess.Code {
		return pk
	}
	pk.Properties.MaximumPacketSize = uint32(s.maxPacketBytes())
	if p.shortened {
		pk.Properties.SessionExpiryInterval = uint32(s.cfg.Limits.SessionExpiry / time.Second)
		pk.Properties.SessionExpiryIntervalFlag = true
	}
	if p.identity.Role == access.RoleTerminal && s.opts.ManagedPresence {
		pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 0, true
	}
	return pk
}

// OnWill silences the will of a connection that a newer one replaced: it would
// say offline of a terminal that is online. An empty topic reaches nobody.
func (h *hook) OnWill(cl *mqtt.Client, will mqtt.Will) (mqtt.Will, error) {
	p := peerOf(cl)
	if p == nil || p.superseded.Load() {
		return mqtt.Will{}, nil
	}
	will.Retain = p.willRetain
	return will, nil
}

// OnWillSent keeps a retained will. The expiry that the library put on a delayed
// one is the end of its delay.
func (h *hook) OnWillSent(_ *mqtt.Client, pk packets.Packet) {
	pk.Expiry = 0
	if pk.FixedHeader.Retain && pk.TopicName != "" {
		h.safely("will", func() { h.s.keep(pk) })
	}
}

// OnSubscribe notes which subscriptions the client has already.
func (h *hook) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	p := peerOf(cl)
	p.existed = map[string]bool{}
	for _, sub := range pk.Filters {
		_, p.existed[sub.Filter] = cl.State.Subscriptions.Get(sub.Filter)
	}
	return pk
}

// OnSubscribed notes which retained messages a client is to be sent.
func (h *hook) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	h.safely("subscribed", func() { h.s.subscribed(peerOf(cl), pk, codes) })
}

// OnPacketProcessed sends what waits for the client: retained messages after
// the SUBACK, and more as it acknowledges.
func (h *hook) OnPacketProcessed(cl *mqtt.Client, pk packets.Packet, err error) {
	p := peerOf(cl)
	if p == nil || err != nil {
		return
	}
	h.safely("replay", func() { h.s.resume(p) })
	h.s.drain(p)
	if pk.FixedHeader.Type == packets.Pingreq || pk.FixedHeader.Type == packets.Subscribe {
		h.s.keepKnown(cl)
	}
}

// OnPublishDropped keeps a message that found the client's queue full.
func (h *hook) OnPublishDropped(cl *mqtt.Client, pk packets.Packet) {
	h.safely("postpone", func() { h.s.postpone(cl, pk) })
}

// OnSysInfoTick frees retained messages that have expired.
func (h *hook) OnSysInfoTick(*system.Info) {
	h.safely("sweep", func() { h.s.retained.Sweep(time.Now()) })
}

// OnClientExpired removes the subscriptions that the library leaves behind.
func (h *hook) OnClientExpired(cl *mqtt.Client) {
	h.safely("expire", func() {
		h.s.broker.UnsubscribeClient(cl)
		cl.ClearInflights()
	})
}
