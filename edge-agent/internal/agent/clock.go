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

// untilServer is how long it is until headquarters' clock shows ms; more than a
// day counts as a day, after which the loop looks again.
func (a *Agent) untilServer(ms int64, now time.Time) time.Duration {
	const day = 24 * time.Hour / time.Millisecond
	left := ms - a.clock.nowMs(now)
	return time.Duration(min(max(left, -int64(day)), int64(day))) * time.Millisecond
}
