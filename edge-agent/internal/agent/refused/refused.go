// Package refused counts the messages that a terminal refuses, by reason, and tells
// the log of them without letting a flood fill a disk. It refuses nothing itself.
package refused

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"muster/internal/logs"
)

// Reason says why a message was refused.
type Reason string

// The reasons.
const (
	Foreign      Reason = "foreign"       // for another store, terminal or task
	Malformed    Reason = "malformed"     // no message of the protocol
	Unsigned     Reason = "unsigned"      // no signature at all
	UnknownKey   Reason = "unknown_key"   // signed by a key that is not on the list
	BadSignature Reason = "bad_signature" // altered, or signed for another topic
	ExpiredKey   Reason = "expired_key"   // the key is not valid at that time
	Replayed     Reason = "replayed"      // heard before
	Expired      Reason = "expired"       // older than an order may be
	Unbound      Reason = "unbound"       // a grant that names no offer
	Conflict     Reason = "conflict"      // an offer in the place of the one that was granted
	Twin         Reason = "twin"          // a grant to another process with this terminal's identity
	Keys         Reason = "keys"          // a list of keys that is old or not sealed
	Unkept       Reason = "keys_unkept"   // a good list of keys, until the disk takes it
)

// Counter counts refused messages. Safe for concurrent use.
type Counter struct {
	log     *slog.Logger
	sparing logs.Sparing // by reason
	mu      sync.Mutex
	counts  map[Reason]int64
}

// New returns a counter that tells log.
func New(log *slog.Logger) *Counter {
	return &Counter{log: log, counts: map[Reason]int64{}}
}

// Add counts one, and tells of it when nothing of its kind was told lately.
func (c *Counter) Add(now time.Time, reason Reason, args ...any) {
	c.mu.Lock()
	c.counts[reason]++
	count := c.counts[reason]
	c.mu.Unlock()
	if left, due := c.sparing.Due(string(reason), now); due {
		c.log.With(args...).Warn("message refused", "reason", string(reason), "refused_so_far", count, "left_out", left)
	}
}

// Counts is how many were refused so far, by reason.
func (c *Counter) Counts() map[Reason]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}
