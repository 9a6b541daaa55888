// Package once knows a request again, however often it is delivered: by the id that
// its sender gave it, or else by its bytes. It commits nothing and words no reply.
package once

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/wish"
)

const (
	// window is how long the same bytes without a request id are taken for the
	// same request: the broker delivers at least once.
	window = time.Minute
	// outage replaces window while headquarters is younger than window: what
	// lay unacknowledged at the broker while it was down comes now.
	outage = time.Hour
)

// Key names a request. Make it with Identify.
type Key struct {
	User string
	// ID is the sender's, or derived from the payload; a derived one starts with
	// ~, which no sender's can.
	ID      string
	Content wish.Content

	derived string // the part of ID without the time slot, "" unless derived
}

// Identify names a request of a user. id is its own, "" when it has none.
func Identify(user, id string, content wish.Content, payload []byte, now time.Time) Key {
	key := Key{User: user, ID: id, Content: content}
	if id == "" {
		sum := sha256.Sum256(payload)
		key.derived = "~" + hex.EncodeToString(sum[:20])
		key.ID = slotID(key.derived, now)
	}
	return key
}

// slotID puts the minute into a derived id, so that the same bytes may make
// another run later although request ids are kept for ever.
func slotID(derived string, at time.Time) string {
	return fmt.Sprintf("%s-%d", derived, at.Unix()/int64(window/time.Second))
}

// Own says whether the sender gave the id.
func (k Key) Own() bool { return k.derived == "" }

// Asked says whether an approval was asked for by this request: by its id, or
// by its bytes for as long as the approval waits.
func (k Key) Asked(a store.Approval) bool {
	if a.Requester != k.User {
		return false
	}
	return a.RequestID == k.ID || !k.Own() && strings.HasPrefix(a.RequestID, k.derived+"-")
}

// Runs are the runs that requests made.
type Runs interface {
	FindRequest(ctx context.Context, user, requestID string) (store.Request, store.Run, error)
}

// Find returns the request that made a run before, of the same key, and that run;
// nil: the request is new. started is since when headquarters takes requests.
func (k Key) Find(ctx context.Context, runs Runs, started, now time.Time) (*store.Request, store.Run, error) {
	ids, reach := []string{k.ID}, time.Duration(0)
	if !k.Own() {
		reach = window
		if now.Sub(started).Abs() < window { // the clock may be set back
			reach = outage
		}
		ids = nil
		for back := time.Duration(0); back <= reach; back += window {
			ids = append(ids, slotID(k.derived, now.Add(-back)))
		}
	}
	for _, id := range ids {
		first, run, err := runs.FindRequest(ctx, k.User, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return nil, run, err
		case reach > 0 && now.Sub(run.CreatedAt) >= reach:
			continue
		}
		return &first, run, nil
	}
	return nil, store.Run{}, nil
}

// Locks let one request of a user be handled after the other, so that two
// deliveries of the same one cannot both find it new. Users may share a lock.
// The zero value is ready.
type Locks [64]sync.Mutex

// Lock returns what unlocks.
func (l *Locks) Lock(user string) func() {
	h := fnv.New32a()
	_, _ = h.Write([]byte(user))
	m := &l[h.Sum32()%uint32(len(l))]
	m.Lock()
	return m.Unlock
}
