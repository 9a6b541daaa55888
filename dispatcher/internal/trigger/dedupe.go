package trigger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

const (
	// window is how long the same bytes without a request id are taken for the
	// same request: the broker delivers at least once.
	window = time.Minute
	// outage replaces window while headquarters is younger than window: what
	// lay unacknowledged at the broker while it was down comes now.
	outage = time.Hour
)

// requestKey names a request. id is the technician's, or derived from the
// payload; a derived one starts with ~, which no technician's can.
type requestKey struct {
	user    string
	id      string
	derived string // the part without the time slot, "" unless derived
	content string
}

func (t *Trigger) identify(user string, w wish, payload []byte) (requestKey, error) {
	content, err := w.content()
	if err != nil {
		return requestKey{}, err
	}
	key := requestKey{user: user, id: w.id, content: content}
	if key.id == "" {
		sum := sha256.Sum256(payload)
		key.derived = "~" + hex.EncodeToString(sum[:20])
		key.id = slotID(key.derived, t.Now())
	}
	return key, nil
}

// slotID puts the minute into a derived id, so that the same bytes may make
// another run later although request ids are kept for ever.
func slotID(derived string, at time.Time) string {
	return fmt.Sprintf("%s-%d", derived, at.Unix()/int64(window/time.Second))
}

// known answers a request that made its run before, or refuses it with
// CONFLICT. A reply that is not OK means that it is new. own is the request's own id,
// if it has one.
func (t *Trigger) known(ctx context.Context, key requestKey, own string) (protocol.Reply, error) {
	ids, reach := []string{key.id}, time.Duration(0)
	now := t.Now()
	if key.derived != "" {
		reach = window
		if now.Sub(t.started).Abs() < window { // the clock may be set back
			reach = outage
		}
		ids = nil
		for back := time.Duration(0); back <= reach; back += window {
			ids = append(ids, slotID(key.derived, now.Add(-back)))
		}
	}
	for _, id := range ids {
		first, run, err := t.Runs.FindRequest(ctx, key.user, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return protocol.Reply{}, err
		case reach > 0 && now.Sub(run.CreatedAt) >= reach:
			continue
		case first.ContentHash != key.content:
			return protocol.Reply{}, refuse.Conflict(own, run.RunID)
		}
		return t.again(run, own), nil
	}
	return protocol.Reply{}, nil
}

// same reports whether an approval was asked for by this request: by its id, or
// by its bytes for as long as the approval waits.
func (k requestKey) same(a store.Approval) bool {
	if a.Requester != k.user {
		return false
	}
	return a.RequestID == k.id || k.derived != "" && strings.HasPrefix(a.RequestID, k.derived+"-")
}

// contentHash is the SHA-256 of what a request asks for. White space, the
// order of members, of stores and of doubles, and members that nobody knows do
// not count; numbers count as they are written.
func contentHash(request protocol.RunRequest) (string, error) {
	request.RequestID = ""
	for _, ids := range []*[]string{&request.Stores.Stores, &request.Stores.AllBut} {
		*ids = slices.Compact(slices.Sorted(slices.Values(*ids)))
	}
	input, err := canonical(request.Input)
	if err != nil {
		return "", err
	}
	request.Input = input
	return digest(request)
}

// canonical writes an input without white space and with its members in order.
func canonical(input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		return nil, nil
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("cannot read an input: %w", err)
	}
	return protocol.Encode(value) // maps are encoded in the order of their keys
}

// digest is the SHA-256 of v as JSON, in hex.
func digest(v any) (string, error) {
	doc, err := protocol.Encode(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:]), nil
}

// userLocks let one request of a user be handled after the other, so that two
// deliveries of the same one cannot both find it new. Users may share a lock.
type userLocks [64]sync.Mutex

// lock returns what unlocks.
func (l *userLocks) lock(user string) func() {
	h := fnv.New32a()
	_, _ = h.Write([]byte(user))
	m := &l[h.Sum32()%uint32(len(l))]
	m.Lock()
	return m.Unlock
}
