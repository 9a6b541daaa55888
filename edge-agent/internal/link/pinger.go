package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
)

// slowestLink, in bytes a second, is the link that the time of a message on its
// way is reckoned for: a GPRS modem on a bad day. Headquarters reckons the same.
const slowestLink = 4 << 10

// errSilent ends a connection on which the broker does not answer.
var errSilent = errors.New("the broker does not answer")

// pinger is paho's Pinger of one connection: it asks when nothing was sent, or
// nothing came, for a keep-alive, and ends the connection when no answer comes
// for another. A question waits behind what was sent before it, and a large
// answer takes minutes over a slow link: so long it is waited for too.
type pinger struct {
	mu       sync.Mutex
	sent     time.Time // last packet
	received time.Time // last packet
	asked    time.Time // last PINGREQ
	overdue  time.Time // its answer, from then on
	answered time.Time // last PINGRESP
	carried  time.Time // last Carries
	through  time.Time // when all that was sent is through the slowest link
}

// Run asks until ctx ends, and returns nil then. Otherwise it returns why the
// connection is dead.
func (p *pinger) Run(ctx context.Context, conn net.Conn, keepAlive uint16) error {
	if keepAlive == 0 {
		return nil
	}
	due := time.NewTimer(0)
	defer due.Stop()
	failed := make(chan error, 1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-due.C:
			ask, wait := p.look(time.Now(), time.Duration(keepAlive)*time.Second)
			if wait <= 0 {
				return errSilent
			}
			if ask {
				go func() { // a write can block for as long as the link does
					if _, err := packets.NewControlPacket(packets.PINGREQ).WriteTo(conn); err != nil {
						failed <- fmt.Errorf("cannot ask the broker whether it is there: %w", err)
					}
				}()
			}
			due.Reset(wait)
		}
	}
}

// look tells whether to ask now, and when to look again: not at all when the
// answer to the last question is overdue.
func (p *pinger) look(now time.Time, keepAlive time.Duration) (ask bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked.After(p.answered) {
		return false, min(keepAlive, p.overdue.Sub(now))
	}
	quiet := p.sent
	if p.received.Before(quiet) {
		quiet = p.received
	}
	if wait = quiet.Add(keepAlive).Sub(now); wait > 0 {
		return false, wait
	}
	p.asked, p.overdue = now, now.Add(keepAlive)
	if p.through.After(now) { // only what was sent before it is in its way
		p.overdue = p.through.Add(keepAlive)
	}
	return true, keepAlive
}

// Carries says that a message of so many bytes is about to be sent.
func (p *pinger) Carries(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carried = time.Now()
	if p.through.Before(p.carried) {
		p.through = p.carried
	}
	p.through = p.through.Add(time.Duration(bytes) * time.Second / slowestLink)
}

// PacketSent is told of every packet that left.
func (p *pinger) PacketSent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = time.Now()
}

// PacketReceived is told of every packet that came.
func (p *pinger) PacketReceived() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = time.Now()
}

// PingResp is told of the answer to a question. What was sent before the question
// is through then.
func (p *pinger) PingResp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = time.Now()
	if p.asked.After(p.carried) {
		p.through = p.answered
	}
}

// SetDebug does nothing: what matters is the error of Run.
func (p *pinger) SetDebug(log.Logger) {}
