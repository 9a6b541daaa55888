package server

import (
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Bounds of what one client's backlog holds: a burst of a fleet, not the day of
// a client that hardly reads.
const (
	backlogMessages = 16_384
	backlogBytes    = 16 << 20
)

// backlog holds messages that found the library's queue of a client full and
// that the library would drop in silence. A goroutine that exists only while
// there is something to do sends them on as the client reads and acknowledges.
// They may overtake what the library still has queued.
type backlog struct {
	mu       sync.Mutex
	messages []packets.Packet
	bytes    int
	draining bool
}

// postpone takes over a message that the library is about to drop. It runs on
// the publisher's goroutine and waits for nothing.
func (s *Server) postpone(cl *mqtt.Client, pk packets.Packet) {
	p := peerOf(cl)
	out, ok := s.addressed(cl, pk)
	if p == nil || !ok {
		return
	}
	b := &p.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) >= backlogMessages || b.bytes+len(out.Payload) > backlogBytes {
		s.log.Warn("a client reads too slowly, a message to it is lost", "user", p.identity.Name, "topic", pk.TopicName)
		return
	}
	b.messages = append(b.messages, out)
	b.bytes += len(out.Payload)
	s.drainLocked(p)
}

// addressed is the message as the client's subscription wants it.
func (s *Server) addressed(cl *mqtt.Client, pk packets.Packet) (packets.Packet, bool) {
	all := s.broker.Topics.Subscribers(pk.TopicName)
	sub, ok := all.Subscriptions[cl.ID]
	for _, group := range all.Shared {
		if shared, in := group[cl.ID]; in && !ok {
			sub, ok = shared, true
		}
	}
	out := pk.Copy(false)
	out.FixedHeader.Qos = min(out.FixedHeader.Qos, sub.Qos)
	out.FixedHeader.Retain = out.FixedHeader.Retain && cl.Properties.ProtocolVersion == 5 && sub.RetainAsPublished
	for _, id := range sub.Identifiers {
		if id > 0 {
			out.Properties.SubscriptionIdentifier = append(out.Properties.SubscriptionIdentifier, id)
		}
	}
	return out, ok
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
				s.log.Error("sending a backlog panicked", "error", err, "user", p.identity.Name)
			}
		}()
	}
}

// sendBacklog sends until the backlog is empty or the client has enough to
// acknowledge.
func (s *Server) sendBacklog(p *peer) {
	for {
		pk, ok := p.backlog.pop(p.client.State.Inflight)
		if !ok {
			return
		}
		if err := s.transmit(p, pk); err != nil {
			p.backlog.clear() // the connection is over
			return
		}
	}
}

func (b *backlog) pop(inflight *mqtt.Inflight) (pk packets.Packet, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) == 0 || inflight.Len() >= replayWindow {
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

// transmit writes a message to a client, past the library's queue, and waits
// while the client has too much to read.
func (s *Server) transmit(p *peer, pk packets.Packet) error {
	if pk.FixedHeader.Qos > 0 {
		id, err := p.client.NextPacketID()
		if err != nil {
			return err
		}
		pk.PacketID = uint16(id)
		pk.Created = time.Now().Unix()
		if p.client.State.Inflight.Set(pk) {
			atomic.AddInt64(&s.broker.Info.Inflight, 1)
		}
	}
	return p.client.WritePacket(pk)
}
