// Package clock is headquarters' own time, by which every deadline is kept: the
// wall clock as it stood at the start, and the monotonic time since. A wall clock
// that is set while something hangs on the time moves nothing.
//
// A difference to the wall that is no drift is a step: it is told, and the wall is
// taken over once nothing hangs on the time that it replaces. What drifts is
// followed by itself, because the kernel slews both clocks. The package moves no
// deadline and knows nothing of runs.
package clock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/quarantine"
)

const (
	// lookEvery bounds how late a step is noticed; a look costs two readings.
	lookEvery = time.Second
	// slack is how far the wall may differ from headquarters' time unsaid: below
	// the second that a barrier may be late.
	slack = time.Second
	// near is what two readings on a busy machine may differ by themselves.
	near = 100 * time.Millisecond
	// long is after how long a step that still waits is told again, as critical:
	// longer than a usual run takes to its barrier.
	long = 10 * time.Minute
	// farthest bounds the step that is taken over without a restart. Numbers of
	// messages follow the time and never go back, and a start on a clock that is
	// two days behind them is refused: a clock gone mad must not use them up.
	farthest = 47 * time.Hour
)

// Step is a difference between the wall and headquarters' time that waits to be
// taken over.
type Step struct {
	By    time.Duration // how far the wall is ahead of headquarters' time
	Since time.Time     // when it was noticed, by Steady
	Why   string        // what hangs on headquarters' time
	// Stays says that only a restart takes the wall over: the step is too large.
	Stays bool
	// Long says that it waits for longer than it should.
	Long bool
}

// Error says how the clocks stand, what holds and what to do.
func (s *Step) Error() string {
	side := "ahead of"
	if s.By < 0 {
		side = "behind"
	}
	told := fmt.Sprintf("the clock of this machine stands %s %s headquarters' time, so it was set, or the machine was suspended: deadlines, leases and retries go on by headquarters' time",
		s.By.Abs().Round(time.Millisecond), side)
	if s.Stays {
		return told + "; a step of two days is not taken over: set the clock right, or restart headquarters if it is right"
	}
	return fmt.Sprintf("%s; the clock is taken over as soon as nothing hangs on it (now: %s); keep clocks set by NTP", told, s.Why)
}

// Watch is what a clock needs to take steps over.
type Watch struct {
	// Hanging says what hangs on headquarters' time, "" when nothing does. What was
	// due by the given moment, the earlier of both times, does not: it stays due.
	Hanging func(ctx context.Context, by time.Time) (string, error)
	// Told is told of a step that has to wait, again when it changed or waits long,
	// and with nil when it is over. It must not block.
	Told func(step *Step)
	// Stepped is told after headquarters' time stepped by more than a second.
	Stepped func(by time.Duration)
	Logger  *slog.Logger
	// Ward is told of a look that makes headquarters panic; may be nil.
	Ward *quarantine.Ward
}

// Clock is headquarters' time. Create it with New; it is safe for concurrent use.
type Clock struct {
	wall  func() time.Time
	begun scale
	own   atomic.Pointer[scale]
	pulse pulse

	// held is held for reading by whoever reads the time and commits what hangs on
	// it, for writing while the time is changed.
	held sync.RWMutex

	looking sync.Mutex // one looks at a time
	watch   Watch
	step    atomic.Pointer[Step] // nil: none waits

	cancel context.CancelFunc
	loop   sync.WaitGroup
}

// scale counts on from a time of the wall by the monotonic clock.
type scale struct {
	wall time.Time // without a monotonic reading
	mono time.Time
}

func (s *scale) at(mono time.Time) time.Time { return s.wall.Add(mono.Sub(s.mono)) }

// New returns a clock that stands as the wall does. It follows no step until
// Start.
func New(wall func() time.Time) *Clock {
	c := &Clock{wall: wall}
	c.begun = scale{wall().Round(0), time.Now()}
	c.own.Store(&c.begun)
	return c
}

// Now is headquarters' time: what is stored, told and compared with deadlines. It
// steps only while nothing hangs on it.
func (c *Clock) Now() time.Time { return c.own.Load().at(time.Now()) }

// Steady is a time that never steps, and headquarters' time until the first step is
// taken over. What is only counted within one life, such as budgets, leases and
// pauses, goes by it or by time.Now, never by Now.
func (c *Clock) Steady() time.Time { return c.begun.at(time.Now()) }

// Hold keeps the time from stepping until release is called: for whoever reads it
// and then commits a deadline. It must not be called again before the release.
func (c *Clock) Hold() (release func()) {
	c.held.RLock()
	return c.held.RUnlock
}

// Step returns the step that waits, nil when there is none.
func (c *Clock) Step() *Step { return c.step.Load() }

// Start follows the wall from now on.
func (c *Clock) Start(ctx context.Context, w Watch) {
	c.looking.Lock()
	c.watch = w
	c.looking.Unlock()
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	c.pulse.begin(time.Now())
	c.loop.Go(func() { c.beat(loop) })
	c.loop.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-loop.Done():
				return
			case <-tick.C:
				w.Ward.Turn("the look at the clock", lookEvery, func() time.Duration { c.Look(loop); return lookEvery })
			}
		}
	})
}

// beat looks at the pulse for as long as the process runs; a look at the clock may
// wait for the store.
func (c *Clock) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			c.pulse.lost(now)
		}
	}
}

// Stop ends the following and waits for it. It may be called twice, or before
// Start.
func (c *Clock) Stop() {
	if c.cancel == nil {
		return
	}
	c.cancel()
	c.loop.Wait()
}
