package server

import (
	"context"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
	"muster/broker/server/door"
	"muster/broker/server/guard"
	"muster/broker/server/users"
)

// longestKeepalive bounds the keep alive of a client that cannot be told a shorter
// one, in seconds: 12 h and a little.
const longestKeepalive = 43_690

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
	if s.opts.ManagedPresence && door.ClaimsTerminal(p.cert, string(pk.Connect.Username)) {
		pk.Properties.SessionExpiryInterval = 0
		pk.Connect.Clean = true
	}
	// Left to the library, it is cut while the sweep of expired sessions may
	// already read it.
	if longest := uint32(s.cfg.Limits.SessionExpiry / time.Second); pk.Properties.SessionExpiryInterval > longest {
		pk.Properties.SessionExpiryInterval, p.shortened = longest, true
	}
	return pk
}

// admit decides about a CONNECT. Anything but CodeSuccess is sent to the client
// and ends the connection.
func (s *Server) admit(p *peer, cl *mqtt.Client, pk packets.Packet) packets.Code {
	if pk.Properties.AuthenticationMethod != "" {
		return packets.ErrBadAuthenticationMethod
	}
	if why := p.secure.Fault(p.cert, s.opts.Now()); why != "" {
		return door.Refused(packets.ErrNotAuthorized, why)
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Limits.ConnectDeadline)
	defer cancel()
	p.book = s.door.Book() // before it is asked: what changes meanwhile is found by the next look
	id, code := s.door.Identify(ctx, door.Visitor{Attempt: users.Attempt{
		Name: string(pk.Connect.Username), Password: pk.Connect.Password, Address: guard.AddressOf(p).String(),
	}, Cert: p.cert})
	if code != packets.CodeSuccess {
		return code
	}
	p.identity = id
	cl.Properties.Username = []byte(id.Name)
	if !door.FitsClientID(id, cl.ID) {
		return door.Refused(packets.ErrClientIdentifierNotValid, "client identifier not valid: a terminal's is its user name, {store}/{terminal}, and no other looks like one")
	}
	if pk.Connect.ClientIdentifier != "" && s.flaps(id, cl.ID) {
		return errFlapping
	}
	if code := s.admitWill(cl, id); code != packets.CodeSuccess {
		return code
	}
	s.limitKeepalive(cl)
	cl.State.Inflight.ResetSendQuota(0) // 0: the library has no Receive Maximum to observe
	return s.seat(p)
}

// admitWill refuses a will where it may not be left: the library checks wills
// against nothing. A presence will is dropped where headquarters manages
// presence.
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
	return packets.CodeSuccess
}

// limitKeepalive tells a client of version 5 the keep alive that we allow. An
// older client cannot be told: a shorter one ends its connection no sooner than
// ours would, and a longer one it keeps as far as the library can count; TCP's
// own keep alive finds its end when it is dead.
func (s *Server) limitKeepalive(cl *mqtt.Client) {
	shortest := uint16((s.cfg.Limits.MinKeepalive + time.Second - 1) / time.Second)
	longest := uint16(min(s.cfg.Limits.MaxKeepalive/time.Second, longestKeepalive))
	wanted := cl.State.Keepalive
	allowed := max(wanted, shortest)
	if wanted == 0 || wanted > longest {
		allowed = longest
	}
	switch {
	case cl.Properties.ProtocolVersion == 5:
		cl.State.Keepalive, cl.State.ServerKeepalive = allowed, allowed != wanted
	case wanted > 0:
		cl.State.Keepalive = min(max(wanted, shortest), longestKeepalive)
	}
}

// refusal is the code a client can understand: below version 5 the library
// translates only some.
func refusal(cl *mqtt.Client, code packets.Code) packets.Code {
	if cl.Properties.ProtocolVersion == 5 {
		return code
	}
	switch code.Code {
	case packets.ErrNotAuthorized.Code, packets.ErrBadAuthenticationMethod.Code, packets.ErrBadUsernameOrPassword.Code:
		return packets.ErrBadUsernameOrPassword
	case packets.ErrServerBusy.Code, packets.ErrSessionTakenOver.Code, packets.ErrBanned.Code:
		return packets.ErrServerUnavailable
	case packets.ErrClientIdentifierNotValid.Code:
		return packets.ErrClientIdentifierNotValid
	}
	return code
}
