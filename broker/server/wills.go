package server

import (
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// wills are those that wait for their delay. Safe for concurrent use.
type wills struct {
	mu      sync.Mutex
	byID    map[string]*delayed
	stopped bool
}

// delayed is one will that waits.
type delayed struct{ timer *time.Timer }

// later calls send after a delay, unless the client comes back before.
func (w *wills) later(id string, delay time.Duration, send func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if w.byID == nil {
		w.byID = map[string]*delayed{}
	}
	mine := &delayed{}
	mine.timer = time.AfterFunc(delay, func() {
		if w.take(id, mine) {
			send()
		}
	})
	w.byID[id] = mine
}

// take reports whether a will is still wanted, and forgets it.
func (w *wills) take(id string, d *delayed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[id] != d {
		return false
	}
	delete(w.byID, id)
	return true
}

// drop forgets the will of a client that is back.
func (w *wills) drop(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.byID[id]; d != nil {
		d.timer.Stop()
		delete(w.byID, id)
	}
}

// stop forgets all of them.
func (w *wills) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, d := range w.byID {
		d.timer.Stop()
	}
	w.byID = nil
}

// leaveWill publishes the will of a connection that ended without a goodbye, or
// puts it off. None waits beyond its session (MQTT 5, 3.1.3.2.2). That of a
// connection which a newer one replaced stays silent: it would say offline of a
// terminal that is online.
func (s *Server) leaveWill(p *peer) {
	will := p.client.Properties.Will
	if will.Flag == 0 || p.superseded.Load() {
		return
	}
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: will.Qos, Retain: p.willRetain},
		TopicName:   will.TopicName, Payload: will.Payload, Origin: p.client.ID,
		Properties: packets.Properties{User: will.User},
	}
	send := func() {
		if _, err := recovered(func() error { s.spread(pk, atOnce); return nil }); err != nil {
			s.log.Error("cannot publish a will", "error", err, "user", p.identity.Name)
		}
	}
	if delay := min(will.WillDelayInterval, p.client.Properties.Props.SessionExpiryInterval); delay > 0 && p.client.Properties.ProtocolVersion == 5 {
		s.wills.later(p.client.ID, time.Duration(delay)*time.Second, send)
		return
	}
	send()
}
