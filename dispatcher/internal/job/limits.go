package job

import (
	"math"
	"time"
)

// Limits bound all runs together; a run's own may be tighter.
type Limits struct {
	MaxRunning      int     // 0: none
	GrantsPerSecond float64 // 0: none
	GrantBurst      int
}

// Rate is how many tasks of a run begin a second at most; 0: no limit.
func (p Policy) Rate(all Limits) float64 { return least(p.GrantRate, all.GrantsPerSecond) }

// Finish is how long n tasks take that all ask at once, when one execution takes
// typical and nothing else runs: until the buckets have let the last one begin and it
// is done, or as long as the slots need for all of them.
func (p Policy) Finish(n int, typical time.Duration, all Limits) time.Duration {
	last := max(wait(n, p.GrantRate, p.GrantBurst), wait(n, all.GrantsPerSecond, all.GrantBurst))
	rounds := 1
	if slots := int(least(float64(p.MaxRunning), float64(all.MaxRunning))); slots > 0 {
		rounds = (n + slots - 1) / slots
	}
	return max(last+typical, time.Duration(rounds)*typical)
}

// wait is how long the n-th token of a full bucket takes.
func wait(n int, perSecond float64, burst int) time.Duration {
	if perSecond <= 0 || n <= max(burst, 1) {
		return 0
	}
	seconds := float64(n-max(burst, 1)) / perSecond
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/4))
}

// least is the smaller of two limits, of which 0 is none.
func least(a, b float64) float64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
