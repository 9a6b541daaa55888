package agent

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Reason says why a message was refused.
type Reason string

// The reasons.
const (
	RefusedForeign      Reason = "foreign"       // for another store, terminal or task
	RefusedMalformed    Reason = "malformed"     // no message of the protocol
	RefusedUnsigned     Reason = "unsigned"      // no signature at all
	RefusedUnknownKey   Reason = "unknown_key"   // signed by a key that is not on the list
	RefusedBadSignature Reason = "bad_signature" // altered, or signed for another topic
	RefusedExpiredKey   Reason = "expired_key"   // the key is not valid at that time
	RefusedReplayed     Reason = "replayed"      // heard before
	RefusedExpired      Reason = "expired"       // older than an order may be
	RefusedUnbound      Reason = "unbound"       // a grant that names no offer
	RefusedKeys         Reason = "keys"          // a list of keys that is old or not sealed
)

// tellEvery is how often one reason is told to the log at most: a flood must not
// fill a disk.
const tellEvery = time.Minute

// refusals counts refused messages. Safe for concurrent use.
type refusals struct {
	log    *slog.Logger
	mu     sync.Mutex
	counts map[Reason]int64
	told   map[Reason]time.Time
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, counts: map[Reason]int64{}, told: map[Reason]time.Time{}}
}

// add counts one, and tells of it when nothing of its kind was told lately.
func (r *refusals) add(now time.Time, reason Reason, args ...any) {
	r.mu.Lock()
	r.counts[reason]++
	count := r.counts[reason]
	last, before := r.told[reason]
	tell := !before || now.Sub(last) >= tellEvery
	if tell {
		r.told[reason] = now
	}
	r.mu.Unlock()
	if tell {
		r.log.With(args...).Warn("message refused", "reason", string(reason), "refused_so_far", count)
	}
}

// Refused counts the messages that were refused since the start, by reason.
func (a *Agent) Refused() map[Reason]int64 {
	a.refused.mu.Lock()
	defer a.refused.mu.Unlock()
	return maps.Clone(a.refused.counts)
}
