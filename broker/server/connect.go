package server

import (
	"context"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
)

const (
	// maxClientID bounds a client id; the longest terminal has 127 bytes.
	maxClientID = 128
	// longestKeepalive is the most that one and a half times of it, as the
	// library computes it, still fits its 16 bits.
	longestKeepalive = 43_690
	// sessionEnd is how many seconds before its session ends a delayed will is
	// sent at the latest: the library does not retain one whose session is gone.
	sessionEnd = 2
)

// strip takes out of a CONNECT what the library handles in a way that hurts:
// Receive Maximum (it deadlocks or overruns it) and topic aliases (a dropped
// message loses the alias), and the session of a terminal whose presence we
// manage.
func (s *Server) strip(p *peer, pk packets.Packet) packets.Packet {
	p.willRetain = pk.Connect.WillRetain // the library is told that it retains nothing
	pk.Connect.WillRetain = false
	if !s.opts.keepsClientQuotas() {
		pk.Properties.ReceiveMaximum = 0
		pk.Properties.TopicAliasMaximum = 0
	}
	if _, _, terminal := terminalForm(string(pk.Connect.Username)); terminal && s.opts.ManagedPresence {
		pk.Properties.SessionExpiryInterval = 0
		pk.Connect.Clean = true
	}
	return pk
}

// admit decides about a CONNECT. Anything but CodeSuccess is sent to the client
// and ends the connection.
func (s *Server) admit(p *peer, cl *mqtt.Client, pk packets.Packet) packets.Code {
	p.client = cl
	if pk.Properties.AuthenticationMethod != "" {
		return packets.ErrBadAuthenticationMethod
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Limits.ConnectDeadline)
	defer cancel()
	id, code := s.door.identify(ctx, string(pk.Connect.Username), pk.Connect.Password)
	if code != packets.CodeSuccess {
		return code
	}
	p.identity = id
	cl.Properties.Username = []byte(id.Name)
	if !clientIDFits(id, cl.ID) {
		return packets.ErrClientIdentifierNotValid
	}
	if code := s.admitWill(cl, id); code != packets.CodeSuccess {
		return code
	}
	s.limitKeepalive(cl)
	if !s.opts.keepsClientQuotas() {
		cl.State.Inflight.ResetSendQuota(0) // 0 means: no Receive Maximum to observe
	}
	return s.seat(p)
}

// clientIDFits binds client ids to identities: a terminal's is its name,
// nobody else's looks like a terminal's.
func clientIDFits(id access.Identity, clientID string) bool {
	if id.Role == access.RoleTerminal {
		return clientID == id.Name
	}
	_, _, terminal := terminalForm(clientID)
	return !terminal && len(clientID) <= maxClientID && !strings.HasPrefix(clientID, "$")
}

// admitWill refuses a will where it may not be left: the library checks wills
// against nothing. A presence will is dropped where headquarters manages
// presence. None waits beyond its session (MQTT 5, 3.1.3.2.2).
func (s *Server) admitWill(cl *mqtt.Client, id access.Identity) packets.Code {
	will := cl.Properties.Will
	if will.Flag == 0 {
		return packets.CodeSuccess
	}
	if !s.judge.MayLeaveWill(id, will.TopicName) {
		return packets.ErrNotAuthorized
	}
	if s.opts.ManagedPresence && s.rules.OwnPresence(id, will.TopicName) {
		cl.Properties.Will = mqtt.Will{}
		return packets.CodeSuccess
	}
	longest := max(sessionEnd, cl.Properties.Props.SessionExpiryInterval) - sessionEnd
	cl.Properties.Will.WillDelayInterval = min(will.WillDelayInterval, longest)
	return packets.CodeSuccess
}

// limitKeepalive tells a client of version 5 the longest keep alive we allow.
// An older client cannot be told, so it keeps its own as far as the library can
// count; TCP's own keep alive finds its end when it is dead.
func (s *Server) limitKeepalive(cl *mqtt.Client) {
	longest := uint16(min(s.cfg.Limits.MaxKeepalive/time.Second, longestKeepalive))
	wanted := cl.State.Keepalive
	switch {
	case cl.Properties.ProtocolVersion == 5 && (wanted == 0 || wanted > longest):
		cl.State.Keepalive, cl.State.ServerKeepalive = longest, true
	case wanted > longestKeepalive:
		cl.State.Keepalive = longestKeepalive
	}
}

// refusal is the code a client can understand: below version 5 the library
// translates only some.
func refusal(cl *mqtt.Client, code packets.Code) packets.Code {
	if cl.Properties.ProtocolVersion == 5 {
		return code
	}
	switch code {
	case packets.ErrNotAuthorized, packets.ErrBadAuthenticationMethod:
		return packets.ErrBadUsernameOrPassword
	case packets.ErrServerBusy, packets.ErrSessionTakenOver:
		return packets.ErrServerUnavailable
	}
	return code
}
