package server

import (
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Bounds of what one client's backlog holds: a burst of a fleet, not the day of
// a client that hardly reads.
const (
	backlogMessages = 16_384
	backlogBytes    = 16 << 20
)

// backlog holds messages for a client that has too much waiting. A goroutine that
// exists only while there is something to do sends them on as the client reads and
// acknowledges.
type backlog struct {
	mu       sync.Mutex
	messages []packets.Packet
	bytes    int
	draining bool
}

// wait puts a message into the backlog. It runs on the publisher's goroutine and
// waits for nothing itself.
func (s *Server) wait(p *peer, pk packets.Packet) {
	b := &p.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) >= backlogMessages+s.cfg.Limits.WritesPending || b.bytes+len(pk.Payload) > backlogBytes {
		s.lost(p, pk, "the reader is too slow")
		return
	}
	b.messages = append(b.messages, pk)
	b.bytes += len(pk.Payload)
	s.drainLocked(p)
}

// drain goes on sending the backlog; it is called after each packet of the
// client.
func (s *Server) drain(p *peer) {
	p.backlog.mu.Lock()
	defer p.backlog.mu.Unlock()
	s.drainLocked(p)
}

func (s *Server) drainLocked(p *peer) {
	if !p.backlog.draining && len(p.backlog.messages) > 0 {
		p.backlog.draining = true
		go func() {
			if panicked, err := recovered(func() error { s.sendBacklog(p); return nil }); panicked {
				s.log.Error("sending a backlog panicked, its connection is closed", "error", err, "user", p.identity.Name)
				_ = p.Close() // the client comes again; what is retained waits for it
			}
		}()
	}
}

// sendBacklog sends until the backlog is empty or the client has enough to
// acknowledge.
func (s *Server) sendBacklog(p *peer) {
	for {
		pk, ok := p.backlog.pop(p)
		if !ok {
			return
		}
		p.WaitRoom()
		if err := s.send(p, pk, atOnce); err != nil {
			p.backlog.clear() // the connection is over
			return
		}
	}
}

// busy reports whether something waits that goes first.
func (b *backlog) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.draining || len(b.messages) > 0
}

func (b *backlog) pop(p *peer) (pk packets.Packet, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) == 0 || p.client.State.Inflight.Len() >= p.window() {
		b.draining = false
		return pk, false
	}
	pk = b.messages[0]
	b.messages = b.messages[1:]
	b.bytes -= len(pk.Payload)
	if len(b.messages) == 0 {
		b.messages = nil
	}
	return pk, true
}

func (b *backlog) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages, b.bytes, b.draining = nil, 0, false
}
