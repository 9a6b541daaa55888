package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
	"muster/broker/server/credential"
	"muster/broker/server/guard"
	"muster/broker/server/packetid"
	"muster/broker/server/seat"
	"muster/broker/server/users"
)

// peer is one connection as the broker knows it. The MQTT library carries it
// around as the client's net.Conn. Everything but the atomics is set by the
// connection's own goroutine before the library shows the client to others.
type peer struct {
	*guard.Conn
	secure     *credential.Set   // of the listener; nil when that is plain
	cert       *x509.Certificate // the client's, verified; nil when it has none
	client     *mqtt.Client
	identity   access.Identity
	book       *users.Book // by which it was let in; nil when anybody is
	session    string
	begun      bool // its session is
	seated     bool // holds its client id in Server.seats
	superseded atomic.Bool
	willRetain bool
	shortened  bool // it asked for a longer session than it gets
	ids        packetid.Map
	filters    filters
	replays    []replay
	backlog    backlog
}

// Owner is the identity that the connection acts for (seat.Holder).
func (p *peer) Owner() string { return p.identity.Name }

// Supersede says whether a newer connection waits for the client id (seat.Holder).
func (p *peer) Supersede(by bool) { p.superseded.Store(by) }

// peerOf returns the connection behind a client, nil for the inline one.
func peerOf(cl *mqtt.Client) *peer {
	p, _ := cl.Net.Conn.(*peer)
	return p
}

// handle serves one connection from CONNECT to its end and cleans up after it,
// whatever the library did.
func (s *Server) handle(c *guard.Conn, listener string, secure *credential.Set) {
	p := &peer{Conn: c, secure: secure, cert: c.Certificate(), session: s.nextSession()}
	panicked, err := recovered(func() error { return s.attend(p, listener) })
	s.over(p, err, panicked)
}

// over is what is left to do when nothing is read any more.
func (s *Server) over(p *peer, err error, panicked bool) {
	remote := p.RemoteAddr().String()
	if panicked {
		s.log.Error("a connection's goroutine panicked", "error", err, "remote", remote)
	}
	_ = p.Close() // never fails
	if p.seated {
		s.end(p, err, panicked)
		s.seats.Leave(p.client.ID, func(session string) { s.report(p, session, false) })
	}
	cause := p.Cause()
	if cause == nil {
		cause = err
	}
	level := slog.LevelDebug
	if refused := (*guard.Violation)(nil); errors.As(cause, &refused) || errors.Is(cause, guard.ErrSlowReader) {
		level = slog.LevelInfo // nobody hears of an old client's bad packet otherwise
	}
	s.log.Log(context.Background(), level, "connection ended", "user", p.identity.Name, "remote", remote, "cause", cause)
}

func (s *Server) nextSession() string {
	return strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatUint(s.serial.Add(1), 36)
}

// recovered runs f and turns a panic into an error with its stack.
func recovered(f func() error) (panicked bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			panicked, err = true, fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return false, f()
}

// goodbye tells the clients of a listener that the broker stops.
func (s *Server) goodbye(listener string) {
	for _, cl := range s.broker.Clients.GetAll() {
		if cl.Net.Listener == listener && !cl.Closed() {
			_ = s.broker.DisconnectClient(cl, packets.ErrServerShuttingDown) // it is closed either way
		}
	}
}

// persistent reports whether a session outlives its connection.
func persistent(cl *mqtt.Client) bool {
	if cl.Properties.ProtocolVersion == 5 {
		return cl.Properties.Props.SessionExpiryInterval > 0
	}
	return !cl.Properties.Clean
}

// keepKnown puts a live client back that the library's sweep of expired
// sessions took out: it deletes by client id, also when a new connection has
// just come in the old session's place, and nothing would reach that any more.
func (s *Server) keepKnown(cl *mqtt.Client) {
	if _, ok := s.broker.Clients.Get(cl.ID); !ok && !cl.Closed() {
		s.broker.Clients.Add(cl)
	}
}

// report tells the embedding program about a terminal's session.
func (s *Server) report(p *peer, session string, online bool) {
	if s.opts.Session == nil || p.identity.Role != access.RoleTerminal {
		return
	}
	panicked, err := recovered(func() error {
		s.opts.Session(Session{
			StoreID: p.identity.Store, TerminalID: p.identity.Terminal,
			SessionID: session, Online: online, At: time.Now(),
		})
		return nil
	})
	if panicked {
		s.log.Error("the session callback panicked", "error", err, "user", p.identity.Name)
	}
}

// seat waits until p holds its client id. Who is refused since somebody else's session
// sleeps under it does not take the seat first: the owner may come back meanwhile.
func (s *Server) seat(p *peer) packets.Code {
	if s.belongsToOther(p) {
		return packets.ErrClientIdentifierNotValid
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Limits.ConnectDeadline)
	defer cancel()
	err := s.seats.Take(ctx, p.client.ID, p, func(old *peer) {
		_ = s.broker.DisconnectClient(old.client, packets.ErrSessionTakenOver) // ends it either way
	})
	switch {
	case errors.Is(err, seat.ErrOtherOwner):
		return packets.ErrClientIdentifierNotValid
	case errors.Is(err, seat.ErrReplaced):
		return packets.ErrSessionTakenOver
	case err != nil:
		return packets.ErrServerBusy
	}
	p.seated = true
	if s.belongsToOther(p) { // since it was waited for
		return packets.ErrClientIdentifierNotValid
	}
	return packets.CodeSuccess
}

// belongsToOther says whether somebody else's session is under the client id of p.
func (s *Server) belongsToOther(p *peer) bool {
	old, there := s.broker.Clients.Get(p.client.ID)
	return there && string(old.Properties.Username) != p.identity.Name
}
