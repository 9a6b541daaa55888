package clock

import "time"

// NewPulse returns the look of a pulse that was begun.
func NewPulse(now time.Time) func(time.Time) time.Duration {
	var p pulse
	p.begin(now)
	return p.lost
}
