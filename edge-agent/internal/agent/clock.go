package agent

import "time"

// hqClock is headquarters' clock, as of a sync and the own monotonic clock.
type hqClock struct {
	serverMs int64
	at       time.Time
}

func (c hqClock) known() bool { return !c.at.IsZero() }

func (c hqClock) nowMs(now time.Time) int64 {
	return c.serverMs + now.Sub(c.at).Milliseconds()
}

// hear takes the time at which headquarters said something: its clock stands there
// at least, whatever was measured before it was set.
func (a *Agent) hear(at, now time.Time) {
	if a.clock.known() && at.UnixMilli()-a.clock.nowMs(now) > clockSlack.Milliseconds() {
		a.clock = hqClock{serverMs: at.UnixMilli(), at: now}
		a.helloSoon(now)
	}
}

const (
	// measuredFor is how long a measured clock is believed where a task would be
	// lost if it were set since.
	measuredFor = resendFrom
	// wallEvery bounds how late a step of the own clock is noticed.
	wallEvery = 30 * time.Second
	// wallStep is what is no drift.
	wallStep = 2 * time.Second
)

// wall is the clock on the wall, not before 1970.
func (a *Agent) wall() time.Time {
	if now := a.cfg.Now().Round(0); now.UnixMilli() > 0 {
		return now
	}
	return time.UnixMilli(1)
}

// watchWall has a step of the own clock told to headquarters, which shows how far
// it is off.
func (a *Agent) watchWall(now time.Time) {
	before := a.seen
	a.seen.wall, a.seen.at = a.wall(), now
	a.later(now.Add(wallEvery), now)
	if before.at.IsZero() {
		return
	}
	if step := a.seen.wall.Sub(before.wall) - now.Sub(before.at); step.Abs() >= wallStep {
		a.log.Warn("the clock of this machine was set; work goes on by headquarters' time", "by", step)
		if a.up {
			a.helloSoon(now)
		}
	}
}

// untilServer is how long it is until headquarters' clock shows ms; more than a
// day counts as a day, after which the loop looks again.
func (a *Agent) untilServer(ms int64, now time.Time) time.Duration {
	const day = 24 * time.Hour / time.Millisecond
	left := ms - a.clock.nowMs(now)
	return time.Duration(min(max(left, -int64(day)), int64(day))) * time.Millisecond
}
