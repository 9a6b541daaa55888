package clock

import (
	"sync"
	"time"
)

const (
	// beatEvery is how often the process shows itself that it runs.
	beatEvery = 250 * time.Millisecond
	// stall is the silence from which on the process did not run: frozen with its
	// virtual machine, stopped by a signal, or without a processor. A busy machine
	// keeps nobody waiting that long.
	stall = time.Second
)

// Awake is a time that counts on only while headquarters runs, for waits in which
// others must be heard: what they said meanwhile waits in sockets and is not read
// yet. It never steps. Without Start nothing is taken for lost.
//
// The kernel's monotonic clock stands still while a machine is suspended, and then
// nothing is lost by it; it goes on while a process is stopped (clock_gettime(2),
// CLOCK_MONOTONIC).
func (c *Clock) Awake() time.Time {
	now := time.Now()
	return c.begun.at(now).Add(-c.pulse.lost(now))
}

// Lost is for how long headquarters did not run since Start. It only grows.
func (c *Clock) Lost() time.Duration { return c.pulse.lost(time.Now()) }

// pulse adds up the time in which nobody could look at it. Whoever looks first after
// a stall finds it, whatever runs first. The zero value takes nothing for lost.
type pulse struct {
	mu    sync.Mutex
	begun bool
	last  time.Time
	sum   time.Duration
}

// begin starts the watch.
func (p *pulse) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.last = true, now
}

// lost is the sum so far, and a beat.
func (p *pulse) lost(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap := now.Sub(p.last); p.begun && gap > 0 {
		if gap > stall {
			p.sum += gap
		}
		p.last = now
	}
	return p.sum
}
