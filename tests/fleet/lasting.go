package fleet

import (
	"context"
	"crypto/rand"
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/internal/protocol"
)

// Recorder writes down what goes over a terminal's wire: a message before it
// leaves, or before anything follows from it.
type Recorder interface {
	Sent(topic string, payload []byte, retained bool) error
	Got(topic string, payload []byte, retained bool) error
	Subscribed(filter string) error
	Connected(on bool) error
}

// LastingOptions describes a terminal that lasts. Execute is called once a
// granted attempt, when it starts: it leaves the mark of the execution and says
// how it will end, and after how long; a Reply with neither result nor failure
// is never given. Receipted, when not nil, is told how long an answer waited for
// its first receipt, from when it was first sent.
type LastingOptions struct {
	Addr      string
	Topics    protocol.Topics
	Store     string
	Terminal  string
	Record    Recorder
	Execute   func(offer protocol.Offer, attempt int) (Reply, time.Duration)
	Receipted func(waited time.Duration, accepted bool)
	// Failed is told of what keeps the record from being whole.
	Failed func(error)
}

// The times of a terminal, as docs/protocol/terminal.md has them.
const (
	againFrom    = 15 * time.Second
	againSpread  = 15 * time.Second
	lookEvery    = time.Second
	renewEvery   = 3 * time.Second
	backoffFirst = 300 * time.Millisecond
	backoffMost  = 5 * time.Second
	dialPatience = 20 * time.Second
)

// Lasting is a simulated terminal with the four duties of the protocol, over
// any number of connections: nothing runs without a grant, an attempt starts
// once, an answer is kept and sent until its receipt, and a stored answer
// answers a later grant. What it knows is in memory, so it must not be killed.
type Lasting struct {
	opts LastingOptions
	seq  atomic.Int64
	cut  chan struct{} // ends the connection that is open

	mu     sync.Mutex
	conn   *Conn
	away   bool // kept from the broker
	silent bool // with its connection left open, unread
	synced bool
	hello  string
	said   time.Time     // the hello
	ahead  time.Duration // headquarters' clock less ours
	tasks  map[string]*duty
	fences map[string]int
}

// NewLasting returns a terminal that does nothing yet.
func NewLasting(opts LastingOptions) *Lasting {
	return &Lasting{opts: opts, cut: make(chan struct{}, 1), tasks: map[string]*duty{}, fences: map[string]int{}}
}

// Run connects, again and again, until ctx ends.
func (l *Lasting) Run(ctx context.Context) {
	wait := backoffFirst
	for ctx.Err() == nil {
		if l.kept() || !l.session(ctx) {
			wait = min(2*wait, backoffMost)
		} else {
			wait = backoffFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + spread(wait)):
		}
	}
}

func spread(d time.Duration) time.Duration {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d)))
	if err != nil {
		return 0
	}
	return time.Duration(n.Int64())
}

// Cut ends the connection that is open now; the terminal connects again.
func (l *Lasting) Cut() {
	select {
	case l.cut <- struct{}{}:
	default:
	}
}

// Away keeps the terminal from the broker, or lets it go there again. Silently
// means that its connection stays open, and nobody reads it.
func (l *Lasting) Away(on, silently bool) {
	l.mu.Lock()
	l.away, l.silent = on, on && silently
	l.mu.Unlock()
	if on {
		l.Cut()
	}
}

// Held returns how many tasks the terminal knows, and how many answers wait for
// a receipt.
func (l *Lasting) Held() (tasks, answers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.tasks {
		if d.done != nil {
			answers++
		}
	}
	return len(l.tasks), answers
}

func (l *Lasting) kept() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away
}

// session is one connection; it reports whether there was one.
func (l *Lasting) session(ctx context.Context) bool {
	dialing, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	name := l.opts.Store + "/" + l.opts.Terminal
	conn, err := Dial(dialing, l.opts.Addr, Login{User: name}, l.receive)
	if err != nil {
		return false
	}
	select {
	case <-l.cut: // it was meant for an earlier one
	default:
	}
	l.note(l.opts.Record.Connected(true))
	defer l.end(ctx, conn)
	if l.kept() {
		return false
	}
	filters := []string{l.opts.Topics.Terminal(l.opts.Store, l.opts.Terminal, protocol.KindOrders), l.opts.Topics.Offer(l.opts.Store, "+")}
	l.mu.Lock()
	l.conn, l.synced = conn, false
	for _, f := range filters {
		l.note(l.opts.Record.Subscribed(f))
	}
	l.mu.Unlock()
	if conn.Subscribe(dialing, filters...) != nil {
		return false
	}
	l.with(l.sayHello)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-conn.Done():
			return true
		case <-l.cut:
			return true
		case <-tick.C:
			l.with(l.look)
		}
	}
}

// end is the end of a connection: at once, or when the silence is over.
func (l *Lasting) end(ctx context.Context, conn *Conn) {
	l.mu.Lock()
	l.conn = nil
	silent := l.silent
	l.mu.Unlock()
	if silent {
		conn.Deafen()
	} else {
		conn.Close()
	}
	l.note(l.opts.Record.Connected(false))
	for silent && ctx.Err() == nil && l.kept() {
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
	conn.Close()
}

func (l *Lasting) with(do func(now time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		do(time.Now())
	}
}

func (l *Lasting) note(err error) {
	if err != nil && l.opts.Failed != nil {
		l.opts.Failed(err)
	}
}

// send records a message and sends it; without a connection it does nothing.
func (l *Lasting) send(kind protocol.Kind, v any) {
	if l.conn == nil {
		return
	}
	payload, err := protocol.Encode(v)
	if err != nil {
		l.note(err)
		return
	}
	topic := l.opts.Topics.Terminal(l.opts.Store, l.opts.Terminal, kind)
	l.note(l.opts.Record.Sent(topic, payload, false))
	_ = l.conn.Publish(topic, payload) // a dead connection ends the session
}

func (l *Lasting) meta() protocol.Meta {
	return protocol.Meta{ID: ulid.MustNew(ulid.Now(), rand.Reader).String(), At: protocol.At(time.Now()), Seq: l.seq.Add(1)}
}

func (l *Lasting) sayHello(now time.Time) {
	meta := l.meta()
	l.hello, l.said = meta.ID, now
	open := []protocol.OpenTask{}
	for id, d := range l.tasks {
		open = append(open, protocol.OpenTask{TaskID: id, Attempt: l.fences[id], Phase: d.phase()})
	}
	l.send(protocol.KindHello, protocol.Hello{Meta: meta, AgentVersion: "fleet", Protocols: []int{1},
		Jobs: []protocol.JobVersion{}, Open: open, ClockMs: now.UnixMilli()})
}

func (l *Lasting) receive(m Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return // it came after the silence began: nobody has read it
	}
	l.note(l.opts.Record.Got(m.Topic, m.Payload, m.Retained))
	addr, ok := l.opts.Topics.Parse(m.Topic)
	now := time.Now()
	switch {
	case ok && addr.Kind == protocol.KindOffer:
		l.offered(addr.Task, m.Payload, now)
	case ok && addr.Kind == protocol.KindOrders:
		var o protocol.Order
		if protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &o) == nil {
			l.ordered(o, now)
		}
	}
}
