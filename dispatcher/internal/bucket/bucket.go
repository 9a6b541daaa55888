// Package bucket is the token bucket of the two budgets, grants and collected
// bytes: it says when tokens are due instead of sleeping for them, so that one
// timer can wait for the first of many.
//
// It knows nothing of what the tokens pay for and never asks the clock. Moments are
// of a clock that does not step, such as time.Now: one that jumps ahead fills it.
package bucket

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Bucket refills at a steady rate up to its burst. The zero value is not
// usable, call New. It is not safe for concurrent use: Due and Take are two
// steps of one decision.
type Bucket struct {
	limiter *rate.Limiter
}

// New returns a full bucket that refills with perSecond tokens a second up to
// burst, which is at least 1. With a perSecond of 0 or less it never runs dry
// and any number may be taken at once.
func New(perSecond float64, burst int) *Bucket {
	limit := rate.Limit(perSecond)
	if perSecond <= 0 {
		limit, burst = rate.Inf, math.MaxInt
	}
	return &Bucket{limiter: rate.NewLimiter(limit, max(burst, 1))}
}

// Set changes rate and burst at now, and keeps the tokens that are there as far as
// they fit; the values are those of New.
func (b *Bucket) Set(perSecond float64, burst int, now time.Time) {
	fresh := New(perSecond, burst).limiter
	b.limiter.SetLimitAt(now, fresh.Limit())
	b.limiter.SetBurstAt(now, fresh.Burst())
}

// Empty is New without a token at now: for who cannot tell what was taken before.
func Empty(perSecond float64, burst int, now time.Time) *Bucket {
	b := New(perSecond, burst)
	b.limiter.AllowN(now, b.Burst())
	return b
}

// After returns a bucket as it stands at now, when one token was taken at each of
// the given moments, in the order in which they were taken. whole says that
// these are all that ever were: then it began full. Else it is taken to have
// been empty before the first, so that never more are there than there may be.
// A moment after now, or before the one it follows, is the work of a clock that
// was set; it counts as late as it can.
func After(perSecond float64, burst int, taken []time.Time, whole bool, now time.Time) *Bucket {
	b := New(perSecond, burst)
	if len(taken) == 0 || b.limiter.Limit() == rate.Inf {
		return b
	}
	full := float64(b.Burst())
	level, last := 0.0, earlier(taken[0], now)
	if whole {
		level = full
	}
	for _, at := range taken {
		if at = earlier(at, now); at.After(last) {
			level, last = min(full, level+perSecond*at.Sub(last).Seconds()), at
		}
		level = max(level-1, 0)
	}
	level = min(full, level+perSecond*now.Sub(last).Seconds())
	// Emptied so long ago that it holds level by now.
	b.limiter.AllowN(now.Add(-time.Duration(level/perSecond*float64(time.Second))), b.Burst())
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Burst is the most that one Take may ask for.
func (b *Bucket) Burst() int { return b.limiter.Burst() }

// Due returns how long after now n tokens will be there if nobody takes any; 0
// means Take would succeed now. More than Burst are never due: Due then answers
// for a full bucket.
func (b *Bucket) Due(now time.Time, n int) time.Duration {
	limit := b.limiter.Limit()
	if limit == rate.Inf {
		return 0
	}
	missing := float64(min(n, b.limiter.Burst())) - b.limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	// Rounded up: whoever waits as long as told must find the tokens there.
	return time.Duration(math.Ceil(missing / float64(limit) * float64(time.Second)))
}

// Take takes n tokens at now, or none when they are not all there.
func (b *Bucket) Take(now time.Time, n int) bool { return b.limiter.AllowN(now, n) }

// Spend takes n tokens at now, whether or not they are there: it is for what was
// used without asking. What is missing is owed, and refilled before any other.
func (b *Bucket) Spend(now time.Time, n int) {
	for part := 0; n > 0; n -= part {
		part = min(n, b.limiter.Burst())
		b.limiter.ReserveN(now, part)
	}
}
