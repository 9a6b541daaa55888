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
	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimits() *limits { return &limits{buckets: map[string]*rate.Limiter{}} }

// allow takes a token of the user, whose bucket is made with the given rate and
// burst when it is not there. The time is of a clock that does not step: one that
// was set back would leave an empty bucket empty until it is there again.
func (l *limits) allow(user string, r rate.Limit, burst int, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.buckets[user]
	if !ok {
		l.sweep(now)
		bucket = rate.NewLimiter(r, burst)
		l.buckets[user] = bucket
	}
	return bucket.AllowN(now, 1)
}

func (l *limits) sweep(now time.Time) {
	if len(l.buckets) < maxUsers {
		return
	}
	for user, bucket := range l.buckets {
		if bucket.TokensAt(now) >= float64(bucket.Burst()) {
			delete(l.buckets, user)
		}
	}
}
