package server

import (
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/door"
)

// lookEvery is how often the files of the listeners are read again, and live
// sessions held against them. A revocation must reach a session within 5 s.
const lookEvery = 2 * time.Second

// watch looks again and again until the broker stops.
func (s *Server) watch() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			// What cannot be looked at now is by the next look: those who are connected stay.
			if _, err := recovered(func() error { s.lookAgain(); return nil }); err != nil {
				s.log.Error("cannot hold the sessions against the files of the listeners; looking again", "error", err)
			}
		}
	}
}

// LoadUsers reads the users file that takes the place of the one in use when use is
// called. Who gets in by both in the same way stays connected; the sessions of others
// end within seconds. On a broker that lets anybody in there is nothing to read.
func (s *Server) LoadUsers(path string) (use func(), err error) {
	if s.cfg.Anonymous {
		return func() {}, nil
	}
	book, err := door.Load(path, s.cfg.Listeners.checksCertificates())
	return func() { s.door.Use(book) }, err
}

// lookAgain reads the files that changed, and ends the sessions whose certificate is good
// no longer, or whose user the users file lets in no longer. All of them are looked at
// each time: one that was let in while the list was being read is found by the next look.
func (s *Server) lookAgain() {
	for _, name := range ListenerNames() {
		if c := s.secure[name]; c != nil {
			c.Refresh(s.log.With("listener", name))
		}
	}
	now, book := s.opts.Now(), s.door.Book()
	for _, p := range s.seats.Holders() {
		why, serial := p.secure.Fault(p.cert, now), ""
		if why == "" && book != p.book && !book.Keeps(p.identity.Name, p.book) {
			why = "the users file no longer lets this user in as it did"
		}
		p.book = book
		if why == "" || p.client.Closed() {
			continue
		}
		if p.cert != nil {
			serial = p.cert.SerialNumber.Text(16)
		}
		s.log.Warn("ended a session", "user", p.identity.Name, "reason", why, "serial", serial)
		_ = s.broker.DisconnectClient(p.client, door.Refused(packets.ErrNotAuthorized, why)) // ends it either way
	}
}
