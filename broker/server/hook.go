package server

import (
	"slices"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/mochi-mqtt/server/v2/system"

	"muster/broker/server/access"
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
		mqtt.OnACLCheck, mqtt.OnPublish, mqtt.OnPacketEncode, mqtt.OnClientExpired, mqtt.OnSysInfoTick,
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
				h.s.outsize(p)
			}
		case packets.Puback, packets.Pubrec, packets.Pubcomp:
			pk.PacketID = p.ids.Outbound(pk)
			p.WaitRoom()
		case packets.Disconnect: // may be written by somebody else's goroutine
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

// OnSysInfoTick frees retained messages that have expired, and sends on what the
// library has just noted about itself.
func (h *hook) OnSysInfoTick(*system.Info) {
	h.safely("sweep", func() {
		h.s.retained.Sweep(time.Now())
		for _, pk := range h.s.broker.Topics.Messages(mqtt.SysPrefix + "/#") {
			h.s.keep(pk)
			h.s.route(pk, atOnce)
		}
	})
}

// OnClientExpired removes what the library leaves behind of a session.
func (h *hook) OnClientExpired(cl *mqtt.Client) {
	h.safely("expire", func() {
		h.s.unsubscribeAll(peerOf(cl))
		cl.ClearInflights()
	})
}
