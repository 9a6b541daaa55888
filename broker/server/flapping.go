package server

import (
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
	"muster/broker/server/ban"
	"muster/broker/server/door"
)

// Ban says that a client is kept out for a while, since it connected again and
// again.
type Ban struct {
	User     string // the authenticated name; a terminal's is "{store}/{terminal}"
	ClientID string
	For      time.Duration
}

// flaps counts a connection of one client id of one identity, and reports
// whether it is banned.
func (s *Server) flaps(id access.Identity, clientID string) bool {
	verdict := s.connects.Count(id.Name+"\x00"+clientID, time.Now())
	if verdict == ban.BannedNow {
		s.tellBan(Ban{User: id.Name, ClientID: clientID, For: s.cfg.Limits.FlappingBan})
	}
	return verdict != ban.Free
}

func (s *Server) tellBan(b Ban) {
	s.log.Warn("a client connects again and again and is banned for a while: are there two with one identity?",
		"user", b.User, "client_id", b.ClientID, "ban", b.For)
	if s.opts.Banned == nil {
		return
	}
	panicked, err := recovered(func() error { s.opts.Banned(b); return nil })
	if panicked {
		s.log.Error("the callback for a ban panicked", "error", err, "user", b.User)
	}
}

// errFlapping is logged where the ban begins, not each time.
var errFlapping = door.Refused(packets.ErrBanned, "this client id connects again and again: wait some minutes, and look for two clients with one identity")
