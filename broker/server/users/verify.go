package users

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"

	"muster/broker/server/access"
)

// Verifier checks passwords against a Book. Hashing is bounded to one at a time
// for each processor; others wait. A password that was right once is recognised
// by a keyed digest that only this process can compute, so that a fleet that
// reconnects at once does not cost a hash a terminal. Safe for concurrent use.
type Verifier struct {
	book  *Book
	slots chan struct{}
	decoy Hash
	key   []byte

	mu   sync.Mutex
	seen map[string][sha256.Size]byte
}

// NewVerifier returns a verifier for the users of a book.
func NewVerifier(book *Book) *Verifier {
	key := make([]byte, 2*sha256.Size)
	_, _ = rand.Read(key) // never fails since Go 1.24
	return &Verifier{
		book:  book,
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)),
		decoy: Hash{memoryKiB: minMemoryKiB, passes: minPasses, lanes: minLanes, salt: key[:minSalt], key: key[:minKey]},
		key:   key[minKey:],
		seen:  map[string][sha256.Size]byte{},
	}
}

// Verify returns who a name and password prove a client to be; ok is false when
// they prove nothing. An unknown name takes as long as a wrong password. It
// fails only when ctx ends while it waits for its turn.
func (v *Verifier) Verify(ctx context.Context, name string, password []byte) (id access.Identity, ok bool, err error) {
	entry, known := v.book.entries[name]
	if len(password) == 0 {
		return access.Identity{}, false, nil
	}
	digest := v.digest(name, password)
	if known && v.remembers(name, digest) {
		return entry.identity, true, nil
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return access.Identity{}, false, fmt.Errorf("cannot verify %s: %w", name, ctx.Err())
	}
	if !known {
		v.decoy.Matches(password)
		return access.Identity{}, false, nil
	}
	if !entry.hash.Matches(password) {
		return access.Identity{}, false, nil
	}
	v.remember(name, digest)
	return entry.identity, true, nil
}

func (v *Verifier) digest(name string, password []byte) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, v.key)
	mac.Write([]byte(name))
	mac.Write([]byte{0})
	mac.Write(password)
	mac.Sum(sum[:0])
	return sum
}

func (v *Verifier) remembers(name string, digest [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.seen[name]
	return ok && hmac.Equal(known[:], digest[:])
}

func (v *Verifier) remember(name string, digest [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen[name] = digest
}
