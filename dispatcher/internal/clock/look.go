package clock

import (
	"context"
	"time"
)

// Look compares the clocks and takes the wall over if it may, so that whoever asks
// for something new after a step is not served by the old time for no reason. It
// does nothing while another look is at work, or before Start.
func (c *Clock) Look(ctx context.Context) {
	if !c.looking.TryLock() {
		return
	}
	defer c.looking.Unlock()
	if c.watch.Hanging == nil {
		return
	}
	off, waits := c.off(), c.step.Load()
	if off.Abs() < near {
		c.over("the clock of this machine is back at headquarters' time")
		return
	}
	step := Step{By: off, Since: c.Steady(), Stays: off.Abs() > farthest}
	if waits != nil {
		step.Since = waits.Since
	}
	step.Long = step.Stays || c.Steady().Sub(step.Since) >= long
	if !step.Stays && c.takeOver(ctx, &step) {
		if step.By.Abs() > slack {
			c.watch.Stepped(step.By)
		}
		c.over("headquarters' time is the clock of this machine again")
		return
	}
	if ctx.Err() != nil || waits == nil && off.Abs() <= slack {
		return // too little to be told; it is taken over when it may
	}
	c.step.Store(&step)
	if waits == nil || step.Long != waits.Long || (step.By-waits.By).Abs() > slack {
		c.watch.Told(&step)
	}
}

// over ends a step that waited.
func (c *Clock) over(how string) {
	if waited := c.step.Swap(nil); waited != nil {
		c.watch.Logger.Info("a step of the clock is over", "how", how, "waited", c.Steady().Sub(waited.Since).String())
		c.watch.Told(nil)
	}
}

// takeOver lets headquarters' time be the wall's, unless something hangs on it or
// somebody holds it, which the next look may find otherwise.
func (c *Clock) takeOver(ctx context.Context, step *Step) bool {
	if step.Why = c.hanging(ctx); step.Why != "" {
		return false // without holding anybody up
	}
	if !c.tryHold(ctx) {
		step.Why = "a message is being taken in"
		return false
	}
	defer c.held.Unlock()
	if step.Why = c.hanging(ctx); step.Why != "" {
		return false
	}
	from := c.Now()
	c.own.Store(&scale{c.wall().Round(0), time.Now()})
	step.By = c.Now().Sub(from)
	return true
}

// tries and pause say how hard one look tries for a moment in which nobody holds
// the time. It is not queued for: whoever comes would have to wait as well.
const (
	tries = 20
	pause = 3 * time.Millisecond
)

func (c *Clock) tryHold(ctx context.Context) bool {
	for range tries {
		if c.held.TryLock() {
			return true
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
	return false
}

func (c *Clock) hanging(ctx context.Context) string {
	by := c.Now()
	if wall := c.wall(); wall.Before(by) {
		by = wall
	}
	why, err := c.watch.Hanging(ctx, by)
	if err != nil {
		return "it cannot be told: " + err.Error()
	}
	return why
}

// readings is how often the clocks are read for one comparison: the wall is read
// between two readings of headquarters' time, and what came between them, such as
// another process, is counted against neither.
const readings = 3

// off is how far the wall is ahead of headquarters' time, at least.
func (c *Clock) off() (least time.Duration) {
	for i := range readings {
		before := c.Now()
		wall := c.wall().Round(0)
		after := c.Now()
		off := time.Duration(0)
		switch {
		case wall.After(after):
			off = wall.Sub(after)
		case wall.Before(before):
			off = wall.Sub(before)
		}
		if i == 0 || off.Abs() < least.Abs() {
			least = off
		}
	}
	return least
}
