package trigger

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxUsers bounds the users that limits remembers; beyond it, those whose
// bucket is full again are forgotten, which changes nothing for them.
const maxUsers = 1024

// limits holds one token bucket a user.
type limits struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimits(r rate.Limit, burst int) *limits {
	return &limits{rate: r, burst: burst, buckets: map[string]*rate.Limiter{}}
}

func (l *limits) allow(user string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.buckets[user]
	if !ok {
		l.sweep(now)
		bucket = rate.NewLimiter(l.rate, l.burst)
		l.buckets[user] = bucket
	}
	return bucket.AllowN(now, 1)
}

func (l *limits) sweep(now time.Time) {
	if len(l.buckets) < maxUsers {
		return
	}
	for user, bucket := range l.buckets {
		if bucket.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, user)
		}
	}
}
