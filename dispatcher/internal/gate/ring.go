package gate

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/trust"
)

// maxKeys bounds the keys in memory, about 250 bytes each. A larger fleet is
// served too, with a read of the database now and then.
const maxKeys = 16_384

// key is an enrolled key, ready for use.
type key struct {
	public   ed25519.PublicKey
	holder   terminal
	revoked  time.Time
	notAfter time.Time
}

func (k key) fits(now time.Time) bool { return k.revoked.IsZero() && now.Before(k.notAfter) }

func (k key) signed(in transport.Inbound) bool {
	return in.Signature.Verify(k.public, in.Topic, in.Payload) == nil
}

// ring remembers the keys that are good. What is not good is read anew each
// time: a key may have been enrolled or renewed since.
type ring struct {
	keys Keys
	most int

	mu      sync.RWMutex
	good    map[string]key
	revoked int64 // counts forget, so that what was read before it is not kept
}

func newRing(keys Keys, most int) *ring { return &ring{keys: keys, most: most, good: map[string]key{}} }

// get returns a key, good or not; store.ErrNotFound when there is none.
func (r *ring) get(ctx context.Context, keyID string, now time.Time) (key, error) {
	r.mu.RLock()
	k, known := r.good[keyID]
	before := r.revoked
	r.mu.RUnlock()
	if known && k.fits(now) {
		return k, nil
	}
	row, err := r.keys.GetTerminalKey(ctx, keyID)
	if err != nil {
		return key{}, err
	}
	if k, err = usable(row); err != nil {
		return key{}, err
	}
	if k.fits(now) {
		r.keep(keyID, k, before)
	}
	return k, nil
}

// keep remembers a key that was read when forget had been called before times.
func (r *ring) keep(keyID string, k key, before int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked != before {
		return
	}
	if _, known := r.good[keyID]; !known && len(r.good) >= r.most {
		for any := range r.good {
			delete(r.good, any)
			break
		}
	}
	r.good[keyID] = k
}

func (r *ring) forget(keyIDs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked++
	for _, id := range keyIDs {
		delete(r.good, id)
	}
}

var errSpoilt = errors.New("the stored key is not the one it names")

func usable(row store.TerminalKey) (key, error) {
	public, err := base64.StdEncoding.DecodeString(row.PublicKey)
	if err != nil || len(public) != ed25519.PublicKeySize || trust.KeyID(public) != row.KeyID {
		return key{}, fmt.Errorf("key %s: %w", row.KeyID, errSpoilt)
	}
	return key{public: public, holder: terminal{row.StoreID, row.TerminalID}, revoked: row.RevokedAt, notAfter: row.NotAfter}, nil
}
