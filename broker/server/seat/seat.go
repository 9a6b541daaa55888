// Package seat gives each client id to one connection at a time, the newest of
// the identity that it belongs to.
//
// It knows neither sockets nor sessions: how a connection is ended, and who hears
// that a session began or is over, is the caller's.
package seat

import (
	"context"
	"errors"
	"sync"
)

// What Take can fail with, beside the error of its context.
var (
	ErrOtherOwner = errors.New("client id is in use by another identity")
	ErrReplaced   = errors.New("a newer connection took the client id")
)

// Holder is a connection that holds or wants a client id.
type Holder interface {
	// Owner is the identity that the connection acts for.
	Owner() string
	// Supersede says whether a newer connection waits for the client id.
	Supersede(bool)
}

// Table is who holds which client id. A newer connection of the same identity
// ends the older one and waits until that is wholly over, so that nothing of the
// old one, its will and its clean-up among them, can touch the new one. Safe for
// concurrent use.
type Table[H Holder] struct {
	mu   sync.Mutex
	byID map[string]*seat[H]
}

type seat[H Holder] struct {
	holder H
	waiter *claim[H]
	online string // session id last announced as online, "" when none
}

type claim[H Holder] struct {
	by      H
	granted chan struct{}
	dropped chan struct{}
}

// New returns an empty table.
func New[H Holder]() *Table[H] { return &Table[H]{byID: map[string]*seat[H]{}} }

// Take returns once h holds the client id. evict is called, unlocked, with the
// connection to end. It fails with ErrOtherOwner, ErrReplaced, or ctx's error.
func (t *Table[H]) Take(ctx context.Context, id string, h H, evict func(old H)) error {
	t.mu.Lock()
	place := t.byID[id]
	if place == nil {
		t.byID[id] = &seat[H]{holder: h}
		t.mu.Unlock()
		return nil
	}
	if place.holder.Owner() != h.Owner() {
		t.mu.Unlock()
		return ErrOtherOwner
	}
	if place.waiter != nil {
		close(place.waiter.dropped)
	}
	mine := &claim[H]{by: h, granted: make(chan struct{}), dropped: make(chan struct{})}
	place.waiter = mine
	old := place.holder
	old.Supersede(true)
	t.mu.Unlock()
	evict(old)
	select {
	case <-mine.granted:
		return nil
	case <-mine.dropped:
		return ErrReplaced
	case <-ctx.Done():
		return t.giveUp(place, mine, ctx.Err())
	}
}

// giveUp withdraws a claim, unless it was granted at the same moment.
func (t *Table[H]) giveUp(place *seat[H], mine *claim[H], err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-mine.granted:
		return nil
	default:
	}
	if place.waiter == mine {
		place.waiter = nil
		place.holder.Supersede(false)
	}
	return err
}

// Announce records and reports that the holder's session began.
func (t *Table[H]) Announce(id, session string, report func()) {
	t.mu.Lock()
	if place := t.byID[id]; place != nil {
		place.online = session
	}
	t.mu.Unlock()
	report()
}

// Leave gives the client id up. offline is called with the session last
// announced when nobody waits for the id; while it runs the id stays taken, so
// that reports keep their order.
func (t *Table[H]) Leave(id string, offline func(session string)) {
	for {
		t.mu.Lock()
		place := t.byID[id]
		switch {
		case place.waiter != nil:
			next := place.waiter
			place.holder, place.waiter = next.by, nil
			close(next.granted)
			t.mu.Unlock()
			return
		case place.online == "":
			delete(t.byID, id)
			t.mu.Unlock()
			return
		}
		session := place.online
		place.online = ""
		t.mu.Unlock()
		offline(session)
	}
}

// Holders are the connections that hold a client id now.
func (t *Table[H]) Holders() []H {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]H, 0, len(t.byID))
	for _, place := range t.byID {
		out = append(out, place.holder)
	}
	return out
}
