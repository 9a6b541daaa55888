// Package presence knows which terminals are connected, tells the steps that
// need to know at once, and greets each terminal on every connection with the
// list of what is open for it. Over an external broker it asks those who were
// there first for their hello.
//
// What is true now stands in memory, because nobody is connected to a
// headquarters that just started; the store follows behind for the report's
// evidence. A word about a session that is no longer the newest changes
// nothing. How long something is ago is measured by time.Now, since Config.Now
// may step. The package decides nothing about a task.
package presence

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/logs"
	"muster/internal/protocol"
)

const (
	// beatEvery is how often headquarters notes that it is alive: how exact a
	// "last seen" is that its own crash ended.
	beatEvery = 5 * time.Second
	// batchSize bounds how many terminals are stored side by side.
	batchSize = 64
	// retryDelay is the pause after presence could not be stored or published.
	retryDelay = 2 * time.Second
	// brokenDelay is the pause after headquarters panicked over one terminal,
	// which does not hold up the others meanwhile.
	brokenDelay = 10 * time.Second
)

// Terminals is where presence is stored.
type Terminals interface {
	SetPresence(ctx context.Context, t store.Terminal, now time.Time) (applied bool, err error)
	ResetPresence(ctx context.Context, now time.Time) error
	SaveHello(ctx context.Context, t store.Terminal, now time.Time) error
	Beat(ctx context.Context, now time.Time) error
}

// Tasks is what a terminal is told of.
type Tasks interface {
	ListOpen(ctx context.Context, storeID string) ([]store.OpenTask, error)
}

// Sender publishes presence, and orders where Config.Orders does not. A failure
// to publish presence is tried again, so JSON should say what became of it.
type Sender interface {
	Meta() protocol.Meta
	Topics() protocol.Topics
	JSON(ctx context.Context, topic string, v any, opts transport.Options) error
	Orders
}

// Orders reaches terminals. Order should not block on a slow one; an order that
// is lost is asked for again.
type Orders interface {
	Order(ctx context.Context, storeID, terminalID string, o protocol.Order) error
}

// Listener is told that a terminal went away. It must return at once and not
// call back.
type Listener interface {
	Offline(storeID, terminalID string)
}

// Config wires presence. Announce says that headquarters publishes the retained
// presence of terminals, as it does with the embedded broker; on an external
// one they do it themselves. Nil Orders means Sender. The other fields are
// required.
type Config struct {
	Terminals Terminals
	Tasks     Tasks
	Sender    Sender
	Orders    Orders
	Listeners []Listener
	Republish func(storeID string) // offers that a terminal does not know
	// Numbered, when set, is told the highest number of an order that a terminal
	// took.
	Numbered func(seq int64)
	Announce bool
	// Alarm, when set, is told that two machines speak as one terminal, and with a
	// nil trouble that they do no more; subject is "{store}/{terminal}". It must
	// not block.
	Alarm func(kind, subject string, trouble error)
	Ward  *quarantine.Ward // is told of a terminal that makes headquarters panic; may be nil
	// Awake is what the patience with the silent goes by: it counts on only while
	// headquarters runs; nil is time.Now.
	Awake  func() time.Time
	Now    func() time.Time
	Logger *slog.Logger
}

// Presence is the step. Create it with New; its methods are safe for concurrent
// use.
type Presence struct {
	cfg Config
	log *slog.Logger

	sparing logs.Sparing

	mu     sync.Mutex
	known  map[terminal]*state
	stores map[string]int // terminals online
	dirty  []*state       // to be stored and announced
	wake   chan struct{}
	soon   []question // asked for the first time, in the order of their times
	again  []question // asked before, likewise
	asking chan struct{}

	cancel    context.CancelFunc
	loops     sync.WaitGroup
	malformed atomic.Int64
}

// terminal is an address.
type terminal struct{ store, id string }

// state is what is known of one terminal. The zero value was never seen.
type state struct {
	who     terminal
	online  bool
	session string    // the newest
	rank    int64     // of the session, by whoever counts sessions
	began   time.Time // of the session, headquarters' clock
	since   time.Time // of online, headquarters' clock
	stored  string    // the newest session that the store knows
	dirty   bool

	twins twins

	heard   time.Time // of the last hello, on an external broker; by time.Now
	doubted time.Time // since when it is being asked whether it is there; zero: it is not
	round   int       // of asking
	asked   int       // times in this round
	silent  bool      // offline because it did not answer
}

// New returns a presence that is not yet started.
func New(cfg Config) *Presence {
	if cfg.Awake == nil {
		cfg.Awake = time.Now
	}
	if cfg.Orders == nil {
		cfg.Orders = cfg.Sender
	}
	return &Presence{cfg: cfg, log: cfg.Logger, known: map[terminal]*state{}, stores: map[string]int{},
		wake: make(chan struct{}, 1), asking: make(chan struct{}, 1)}
}

// Start says that nobody is online, and then follows. It must come before the
// first connection.
func (p *Presence) Start(ctx context.Context) error {
	if err := p.cfg.Terminals.ResetPresence(ctx, p.cfg.Now()); err != nil {
		return fmt.Errorf("cannot start presence: %w", err)
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	p.loops.Go(func() { p.follow(loop) })
	p.loops.Go(func() { p.beat(loop) })
	if !p.cfg.Announce {
		p.loops.Go(func() { p.rollCall(loop) })
	}
	return nil
}

// Stop ends the following and waits for it. It may be called twice, or before
// Start.
func (p *Presence) Stop() {
	if p.cancel == nil {
		return
	}
	p.cancel()
	p.loops.Wait()
}

// Online tells whether any terminal of the store is connected.
func (p *Presence) Online(storeID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stores[storeID] > 0
}

// Count returns how many stores have a terminal that is connected.
func (p *Presence) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.stores)
}

// Malformed counts messages that could not be read.
func (p *Presence) Malformed() int64 { return p.malformed.Load() }

// Session takes the beginning or the end of a connection from the embedded
// broker. It returns at once; the store follows.
func (p *Presence) Session(s transport.Session) {
	at := s.At
	if at.IsZero() {
		at = p.cfg.Now()
	}
	p.apply(terminal{s.StoreID, s.TerminalID}, s.Online, s.SessionID, at.UnixMicro(), at)
}

// apply takes a word about a session, unless it is stale: an end of a session
// that is not the newest, a beginning of one that is older than the newest or
// ended already. rank orders the beginnings of one terminal's sessions: it is the
// terminal's own number where that tells of itself, and headquarters' time, in
// microseconds, where its own broker does. No clock of a terminal takes part.
func (p *Presence) apply(who terminal, online bool, session string, rank int64, at time.Time) {
	if p.applies(who, online, session, rank, at) && !online {
		p.tellOffline(who)
	}
}

func (p *Presence) applies(who terminal, online bool, session string, rank int64, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.known[who]
	if st == nil {
		if !online {
			return false // nobody said that it was there
		}
		st = &state{who: who}
		p.known[who] = st
	}
	switch {
	case st.session == session && (st.online == online || online):
		return false // said before, or a beginning after its end
	case st.session != session && (!online || st.online && rank < st.rank && !p.setBack(st)):
		return false // not the newest session
	}
	if online {
		st.rank, st.began = rank, at
	}
	p.count(st, online)
	st.session, st.online, st.since, st.silent = session, online, at, false
	if online && !p.cfg.Announce && time.Since(st.heard) > askAfter {
		p.doubt(st)
	}
	p.mark(st)
	return true
}

// setBack reports that the newest session began after now: headquarters' clock,
// which numbers the sessions of its own broker, was set back since.
func (p *Presence) setBack(st *state) bool {
	return p.cfg.Announce && st.rank > p.cfg.Now().UnixMicro()
}

func (p *Presence) tellOffline(who terminal) {
	for _, l := range p.cfg.Listeners {
		_ = p.alone(who, func() error { l.Offline(who.store, who.id); return nil })
	}
}

// alone does what is about one terminal: if it panics, that is told, and all else
// goes on.
func (p *Presence) alone(who terminal, do func() error) error {
	return p.cfg.Ward.Do(quarantine.AlarmStep, "terminal "+who.store+"/"+who.id, do)
}

func (p *Presence) count(st *state, online bool) {
	switch {
	case online && !st.online:
		p.stores[st.who.store]++
	case !online && st.online:
		p.stores[st.who.store]--
		if p.stores[st.who.store] == 0 {
			delete(p.stores, st.who.store)
		}
	}
}

func (p *Presence) mark(st *state) {
	if !st.dirty {
		st.dirty = true
		p.dirty = append(p.dirty, st)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
