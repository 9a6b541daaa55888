package users

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"muster/broker/server/access"
	"muster/broker/server/ban"
)

// The reasons for which a login is refused, ErrGuessable among them.
var (
	// ErrWrong: name and password prove nothing.
	ErrWrong = errors.New("bad user name or password")
	// ErrLocked: too many failed logins under this name from this address.
	ErrLocked = errors.New("too many failed logins: wait some minutes")
	// ErrBusy: too many logins wait for a processor.
	ErrBusy = errors.New("too many logins at once: try again")
)

const (
	// maxFailures within failureWindow lock a name for an address for
	// lockLength: people mistype thrice, and a guesser gets 3,000 tries a day.
	maxFailures   = 10
	failureWindow = time.Minute
	lockLength    = 5 * time.Minute
	// maxWaiting bounds who waits for a processor, for each of them: about what
	// one hashes in the ten seconds that a CONNECT may take.
	maxWaiting = 512
)

// Attempt is one login. Address is the client's, without its port.
type Attempt struct {
	Name     string
	Password []byte
	Address  string
}

// Verifier checks passwords against a Book, which may be changed. Hashing is bounded to one at a time
// for each processor; others wait, but not too many. A password that was right
// once is recognised by a keyed digest that only this process can compute, so
// that a fleet that reconnects at once does not cost a hash a terminal. Safe for
// concurrent use.
type Verifier struct {
	book   atomic.Pointer[Book]
	locked func(Attempt)
	slots  chan struct{}
	queue  chan struct{} // who waits for a slot
	decoy  Hash
	key    []byte
	fails  *ban.List

	mu   sync.Mutex
	seen map[string][sha256.Size]byte
}

// NewVerifier returns a verifier for the users of a book. locked, when set, is
// called once for each name that is locked for an address.
func NewVerifier(book *Book, locked func(Attempt)) *Verifier {
	key := make([]byte, 2*sha256.Size)
	_, _ = rand.Read(key) // never fails since Go 1.24
	if locked == nil {
		locked = func(Attempt) {}
	}
	slots := runtime.GOMAXPROCS(0)
	v := &Verifier{
		locked: locked,
		slots:  make(chan struct{}, slots),
		queue:  make(chan struct{}, slots*maxWaiting),
		decoy:  Hash{memoryKiB: minMemoryKiB, passes: minPasses, lanes: minLanes, salt: key[:minSalt], key: key[:minKey]},
		key:    key[minKey:],
		fails:  ban.New(maxFailures, failureWindow, lockLength),
		seen:   map[string][sha256.Size]byte{},
	}
	v.book.Store(book)
	return v
}

// Book is who may log in now.
func (v *Verifier) Book() *Book { return v.book.Load() }

// Use takes another book in the place of this one. Names that are locked stay so.
func (v *Verifier) Use(book *Book) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.book.Store(book)
	clear(v.seen)
}

// Verify returns who a name and password prove a client to be. It fails with
// ErrWrong, ErrLocked, ErrBusy or ErrGuessable, or with ctx's error when that
// ends while it waits for its turn. An unknown name takes as long as a wrong
// password.
func (v *Verifier) Verify(ctx context.Context, a Attempt) (access.Identity, error) {
	book := v.book.Load()
	entry, known := book.entries[a.Name]
	if len(a.Password) == 0 {
		return access.Identity{}, ErrWrong
	}
	// The lock comes before the digest: behind that a guess would cost nothing.
	if v.isLocked(a) {
		return access.Identity{}, ErrLocked
	}
	digest := v.digest(a.Name, a.Password)
	if known && v.remembers(a.Name, digest) {
		return entry.identity, nil
	}
	release, err := v.slot(ctx)
	if err != nil {
		return access.Identity{}, fmt.Errorf("cannot verify %s: %w", a.Name, err)
	}
	defer release()
	if v.isLocked(a) { // meanwhile
		return access.Identity{}, ErrLocked
	}
	hash, checked := v.decoy, known && entry.hash.passes > 0
	if checked {
		hash = entry.hash
	}
	if !hash.Matches(a.Password) || !checked {
		v.fail(a)
		return access.Identity{}, ErrWrong
	}
	if guessable(a.Name, a.Password) {
		return access.Identity{}, ErrGuessable
	}
	v.remember(book, a.Name, digest)
	return entry.identity, nil
}

// slot waits for the right to hash.
func (v *Verifier) slot(ctx context.Context) (release func(), err error) {
	select {
	case v.queue <- struct{}{}:
		defer func() { <-v.queue }()
	default:
		return nil, ErrBusy
	}
	select {
	case v.slots <- struct{}{}:
		return func() { <-v.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a Attempt) key() string { return a.Address + "\x00" + a.Name }

func (v *Verifier) isLocked(a Attempt) bool { return v.fails.Banned(a.key(), time.Now()) }

func (v *Verifier) fail(a Attempt) {
	if v.fails.Count(a.key(), time.Now()) == ban.BannedNow {
		v.locked(a)
	}
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

func (v *Verifier) remember(book *Book, name string, digest [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.book.Load() == book { // or the password may be good no longer
		v.seen[name] = digest
	}
}
