package server

import (
	"context"
	"errors"
	"sync"
)

var (
	errOtherOwner = errors.New("client id is in use by another identity")
	errReplaced   = errors.New("a newer connection took the client id")
)

// seats gives each client id to one connection at a time. A newer connection
// of the same identity ends the older one and waits until that is wholly over,
// so that nothing of the old one, its will and its clean-up among them, can
// touch the new one. Safe for concurrent use.
type seats struct {
	mu   sync.Mutex
	byID map[string]*seat
}

type seat struct {
	holder *peer
	waiter *claim
	online string // session id last announced as online, "" when none
}

type claim struct {
	by      *peer
	granted chan struct{}
	dropped chan struct{}
}

func newSeats() *seats { return &seats{byID: map[string]*seat{}} }

// take returns once p holds the client id. evict is called, unlocked, with the
// connection to end. It fails with errOtherOwner, errReplaced, or ctx's error.
func (s *seats) take(ctx context.Context, id string, p *peer, evict func(old *peer)) error {
	s.mu.Lock()
	place := s.byID[id]
	if place == nil {
		s.byID[id] = &seat{holder: p}
		s.mu.Unlock()
		return nil
	}
	if place.holder.identity.Name != p.identity.Name {
		s.mu.Unlock()
		return errOtherOwner
	}
	if place.waiter != nil {
		close(place.waiter.dropped)
	}
	mine := &claim{by: p, granted: make(chan struct{}), dropped: make(chan struct{})}
	place.waiter = mine
	old := place.holder
	old.superseded.Store(true)
	s.mu.Unlock()
	evict(old)
	select {
	case <-mine.granted:
		return nil
	case <-mine.dropped:
		return errReplaced
	case <-ctx.Done():
		return s.giveUp(place, mine, ctx.Err())
	}
}

// giveUp withdraws a claim, unless it was granted at the same moment.
func (s *seats) giveUp(place *seat, mine *claim, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-mine.granted:
		return nil
	default:
	}
	if place.waiter == mine {
		place.waiter = nil
		place.holder.superseded.Store(false)
	}
	return err
}

// announce records and reports that the holder's session began.
func (s *seats) announce(id, session string, report func()) {
	s.mu.Lock()
	if place := s.byID[id]; place != nil {
		place.online = session
	}
	s.mu.Unlock()
	report()
}

// leave gives the client id up. offline is called with the session last
// announced when nobody waits for the id; while it runs the id stays taken, so
// that reports keep their order.
func (s *seats) leave(id string, offline func(session string)) {
	for {
		s.mu.Lock()
		place := s.byID[id]
		switch {
		case place.waiter != nil:
			next := place.waiter
			place.holder, place.waiter = next.by, nil
			close(next.granted)
			s.mu.Unlock()
			return
		case place.online == "":
			delete(s.byID, id)
			s.mu.Unlock()
			return
		}
		session := place.online
		place.online = ""
		s.mu.Unlock()
		offline(session)
	}
}
