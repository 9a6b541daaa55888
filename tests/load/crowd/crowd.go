// Package crowd is a fleet of simulated terminals that does as little as a
// terminal can: offer, claim, grant, result, receipt, a sign of life of what lasts,
// and signatures where headquarters has an identity. Thousands fit into one process, one goroutine
// each and no timer.
//
// It is for measuring and behaves well; terminals that misbehave are package
// fleet. A terminal whose connection ends stays away.
package crowd

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// The names that the crowd's headquarters must know.
const (
	Job      = "load"
	Terminal = "pos1"
)

// StoreID is the store of the i-th terminal.
func StoreID(i int) string { return fmt.Sprintf("S%06d", i) }

// Key is the key of the i-th terminal, the same each time.
func Key(i int) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(StoreID(i)))
	return ed25519.NewKeyFromSeed(seed[:])
}

const (
	keepAlive = 300 // seconds; the longest that the broker takes
	// dialling bounds how many connect at once: each may cost headquarters a
	// password hash.
	dialling = 32
	// checkEvery: of so many messages of headquarters one has its signature
	// verified. All of them is the terminals' work, on machines of their own.
	checkEvery = 64
	// quiet is how long an execution runs before its terminal says that it started,
	// as the agent does.
	quiet = time.Second
)

// Options say what a crowd does. Dial is required.
type Options struct {
	Terminals int
	Tasks     int // how many are to come, over all terminals
	Work      time.Duration
	Bytes     int // of a result, about
	Signed    bool
	Mute      bool // claim nothing
	Hold      bool // end no execution before everything is granted, then all
	Password  string
	Dial      func(ctx context.Context, i int) (net.Conn, error) `json:"-"`
}

// Sums are what came of it, in milliseconds since the trigger where it is a time.
// A sound measurement has Tasks of Offers, Grants and Receipts, and no Lost, Forged,
// Refused or Strays.
type Sums struct {
	Offers, Grants, Receipts               int64
	OfferP50, OfferP99, OfferMax, GrantP99 float64
	Released                               float64 // with Hold: when the results began

	Lost      int64 // connections that ended
	Strays    int64 // orders that fit nothing
	Refused   int64 // receipts of answers that were not accepted
	Denied    int64 // claims
	Repeats   int64 // grants and receipts that came again
	Reminders int64 // claims and results that were said again
	Verified  int64 // messages whose signature was looked at
	Forged    int64 // those of them that were not headquarters'
}

// Crowd is safe for concurrent use. Create it with New.
type Crowd struct {
	Options
	work   time.Duration
	log    string
	topics protocol.Topics
	all    []*terminal
	// instance is the process that the terminals say they are: only one that names it
	// may be quiet about a start.
	instance string

	offers, grants moments
	receipts       atomic.Int64
	last           atomic.Int64 // when the last receipt came, Unix nanoseconds
	released       atomic.Int64 // when what was held back was let go
	granted        chan struct{}
	online         atomic.Int64
	ready, done    chan struct{}
	starts, ends   chan execution // in the order in which they are due
	sums           Sums
	heard          atomic.Int64
	list           atomic.Pointer[trust.Document]
	failure        chan error
	buffers        sync.Pool
}

// execution is what a terminal is busy with, and when there is something to say of it.
type execution struct {
	t  *terminal
	id string
	at time.Time
}

// New returns a crowd that is not connected.
func New(o Options) (*Crowd, error) {
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return nil, err
	}
	c := &Crowd{Options: o, work: o.Work, topics: topics, log: strings.Repeat("x", max(0, o.Bytes-80)), instance: ulid.Make().String(),
		offers: newMoments(o.Tasks), grants: newMoments(o.Tasks), ready: make(chan struct{}), done: make(chan struct{}), granted: make(chan struct{}),
		starts: make(chan execution, o.Tasks), ends: make(chan execution, o.Tasks), failure: make(chan error, 1)}
	c.buffers.New = func() any { b := make([]byte, 0, 4<<10); return &b }
	began := time.Now().UnixMicro()
	for i := range o.Terminals {
		t := &terminal{crowd: c, index: i, store: StoreID(i), seq: began}
		for kind, name := range []protocol.Kind{toClaim: protocol.KindClaim, toProgress: protocol.KindProgress, toResult: protocol.KindResult, toHello: protocol.KindHello} {
			t.topics[kind] = topics.Terminal(t.store, Terminal, name)
		}
		if o.Signed {
			t.signer = trust.NewSigner(Key(i))
		}
		c.all = append(c.all, t)
	}
	return c, nil
}

// Connect brings every terminal up and returns once each has its sync. The crowd
// lives until ctx ends.
func (c *Crowd) Connect(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(dialling)
	for _, t := range c.all {
		group.Go(func() error {
			if err := t.connect(groupCtx); err != nil {
				return fmt.Errorf("terminal %s: %w", t.store, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	go c.clock(ctx)
	go c.inTurn(ctx, c.starts, (*terminal).lasts)
	go c.executions(ctx)
	select {
	case <-c.ready:
		return nil
	case err := <-c.failure:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%d of %d terminals are up: %w", c.online.Load(), c.Terminals, ctx.Err())
	}
}

// Done is closed with the last receipt.
func (c *Crowd) Done() <-chan struct{} { return c.done }

// Last is when the last receipt so far came.
func (c *Crowd) Last() time.Time { return time.Unix(0, c.last.Load()) }

// Failed tells the first terminal that went away, or whose answer was refused.
func (c *Crowd) Failed() <-chan error { return c.failure }

// Count sums up what came since the trigger.
func (c *Crowd) Count(trigger time.Time) Sums {
	s := &c.sums
	out := Sums{Offers: c.offers.n.Load(), Grants: c.grants.n.Load(), Receipts: c.receipts.Load()}
	for to, from := range map[*int64]*int64{&out.Lost: &s.Lost, &out.Strays: &s.Strays, &out.Refused: &s.Refused, &out.Denied: &s.Denied,
		&out.Repeats: &s.Repeats, &out.Reminders: &s.Reminders, &out.Verified: &s.Verified, &out.Forged: &s.Forged} {
		*to = atomic.LoadInt64(from)
	}
	if at := c.released.Load(); at > 0 {
		out.Released = float64(at-trigger.UnixNano()) / 1e6
	}
	offers, grants := c.offers.since(trigger), c.grants.since(trigger)
	out.OfferP50, out.OfferP99, out.OfferMax, out.GrantP99 = offers.at(.5), offers.at(.99), offers.at(1), grants.at(.99)
	return out
}

// Close cuts every connection.
func (c *Crowd) Close() {
	for _, t := range c.all {
		if t.net != nil {
			_ = t.net.Close() // it may have ended
		}
	}
}

func (c *Crowd) note(count *int64) { atomic.AddInt64(count, 1) }

func (c *Crowd) up() {
	if c.online.Add(1) == int64(c.Terminals) {
		close(c.ready)
	}
}

func (c *Crowd) receipt(now time.Time) {
	c.last.Store(now.UnixNano())
	if c.receipts.Add(1) == int64(c.Tasks) {
		close(c.done)
	}
}

// lost takes the end of a connection.
func (c *Crowd) lost(t *terminal, err error) {
	c.note(&c.sums.Lost)
	if errors.Is(err, net.ErrClosed) {
		return
	}
	c.fail(fmt.Errorf("terminal %s is cut off: %w", t.store, err))
}

func (c *Crowd) fail(err error) {
	select {
	case c.failure <- err:
	default: // the first one is told
	}
}

func (c *Crowd) buffer() *[]byte {
	b, _ := c.buffers.Get().(*[]byte) // it holds nothing else
	return b
}

func (c *Crowd) give(b *[]byte) { c.buffers.Put(b) }

// grant counts one.
func (c *Crowd) grant(now time.Time) {
	if c.grants.add(now) == int64(c.Tasks) {
		close(c.granted)
	}
}

// begin has every execution take as long as the others: the first to begin is
// the first to end.
func (c *Crowd) begin(t *terminal, id string, now time.Time) {
	if c.work > quiet {
		c.starts <- execution{t, id, now.Add(quiet)}
	}
	c.ends <- execution{t, id, now.Add(c.work)}
}

func (c *Crowd) executions(ctx context.Context) {
	if c.Hold {
		select {
		case <-c.granted:
			c.released.Store(time.Now().UnixNano())
		case <-ctx.Done():
			return
		}
	}
	c.inTurn(ctx, c.ends, (*terminal).ended)
}

// inTurn says of each execution what is to be said of it, in its time.
func (c *Crowd) inTurn(ctx context.Context, due <-chan execution, say func(*terminal, string, time.Time) error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case e := <-due:
			timer.Reset(time.Until(e.at))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			_ = say(e.t, e.id, time.Now()) // its reader tells that it is cut off
		case <-ctx.Done():
			return
		}
	}
}

// clock reminds headquarters of what it owes, for all terminals.
func (c *Crowd) clock(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case now := <-tick.C:
			for i, t := range c.all {
				_ = t.remind(now, (n+i)%100 == 0) // its reader tells that it is cut off
			}
		case <-ctx.Done():
			return
		}
	}
}

func (c *Crowd) keys(payload []byte) error {
	if c.list.Load() != nil {
		return nil
	}
	list, err := keysOf(payload)
	if err == nil {
		c.list.Store(&list)
	}
	return err
}

// check looks at the signature of some of headquarters' messages.
func (c *Crowd) check(m message) {
	if !c.Signed || len(m.payload) == 0 || c.heard.Add(1)%checkEvery != 0 {
		return
	}
	list := c.list.Load()
	if list == nil {
		return
	}
	c.note(&c.sums.Verified)
	s, err := m.signature()
	if err == nil {
		_, err = list.Verify(string(m.topic), m.payload, s)
	}
	if err != nil {
		c.note(&c.sums.Forged)
	}
}
