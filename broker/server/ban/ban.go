// Package ban counts what clients do by key, and bans a key for a while that
// did it too often: failed logins, connections one after the other.
//
// It knows neither clients nor passwords, keeps nothing on disk, and its memory
// is bounded whatever is counted.
package ban

import (
	"hash/maphash"
	"sync"
	"time"
)

// keys bounds how many keys are remembered. A fleet of some thousands of stores
// fits, at some 100 bytes each; beyond it the ones that were quiet longest go.
const keys = 16_384

// Verdict is what a counted event means.
type Verdict int

const (
	// Free lets the key go on.
	Free Verdict = iota
	// Banned says that this event was one too many, or fell into a ban.
	Banned
	// BannedNow is Banned for the event that began the ban: the one to log.
	BannedNow
)

// List counts events and holds bans. Safe for concurrent use.
type List struct {
	limit          int
	window, length time.Duration
	seed           maphash.Seed
	epoch          time.Time

	mu         sync.Mutex
	young, old map[uint64]*record // an old record becomes young when it is used
}

// record keeps when the newest events of a key were, since the epoch.
type record struct {
	events []time.Duration
	until  time.Duration // of the ban
}

// New returns a list that bans a key for length at its limit-th event within
// window.
func New(limit int, window, length time.Duration) *List {
	return &List{
		limit: limit, window: window, length: length, seed: maphash.MakeSeed(), epoch: time.Now(),
		young: map[uint64]*record{}, old: map[uint64]*record{},
	}
}

// Count adds an event of a key. An event during a ban does not prolong it.
func (l *List) Count(key string, now time.Time) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := now.Sub(l.epoch)
	r := l.find(key, at)
	if at < r.until {
		return Banned
	}
	for len(r.events) > 0 && r.events[0] <= at-l.window {
		r.events = r.events[1:]
	}
	r.events = append(r.events, at)
	if len(r.events) < l.limit {
		return Free
	}
	r.events, r.until = nil, at+l.length
	return BannedNow
}

// Banned reports whether a key is banned. It counts nothing.
func (l *List) Banned(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := maphash.String(l.seed, key)
	r := l.young[sum]
	if r == nil {
		r = l.old[sum]
	}
	return r != nil && now.Sub(l.epoch) < r.until
}

func (l *List) find(key string, at time.Duration) *record {
	sum := maphash.String(l.seed, key)
	if r := l.young[sum]; r != nil {
		return r
	}
	r := l.old[sum]
	if r == nil {
		r = &record{}
	}
	delete(l.old, sum)
	if len(l.young) >= keys/2 {
		l.age(at)
	}
	l.young[sum] = r
	return r
}

// age makes the young records the old ones, and forgets these, but for bans: a
// flood of keys lifts none until it has filled a quarter of the list with bans
// of its own.
func (l *List) age(at time.Duration) {
	young := map[uint64]*record{}
	for sum, r := range l.old {
		if at < r.until && len(young) < keys/4 {
			young[sum] = r
		}
	}
	l.old, l.young = l.young, young
}
