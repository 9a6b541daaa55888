// Package fleet simulates store terminals: each speaks the whole protocol over
// a real connection of its own, thousands in one process. It is the far end of
// the wire for tests and load; it keeps nothing on disk and must never be
// taken for the agent.
package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/internal/protocol"
)

// Reply is how an execution ends: a result, or a failure when it is not nil.
type Reply struct {
	Result  json.RawMessage
	Failure *protocol.Failure
}

// Options describes one terminal. Execute is called once a granted attempt,
// after Delay, from a goroutine of its own. Observe, when not nil, sees every
// order and offer before the terminal acts on it.
type Options struct {
	Addr     string
	Topics   protocol.Topics
	Store    string
	Terminal string
	Password string
	Delay    time.Duration
	Execute  func(offer protocol.Offer, attempt int) Reply
	Observe  func(kind string, order protocol.Order)
	// Mute stops the terminal from claiming.
	Mute bool
	// ClaimAfter is how long the terminal waits before it even reads an offer.
	ClaimAfter time.Duration
}

// Terminal is one simulated terminal.
type Terminal struct {
	opts Options
	conn *Conn
	seq  atomic.Int64

	mu    sync.Mutex
	tasks map[string]*held
}

// held is a task that the terminal knows.
type held struct {
	offer   protocol.Offer
	attempt int // the newest granted one
	done    *protocol.Result
	claimed bool
}

// Start connects, subscribes, and says hello. The terminal works until Close or
// until the connection ends; it does not reconnect.
func Start(ctx context.Context, opts Options) (*Terminal, error) {
	t := &Terminal{opts: opts, tasks: map[string]*held{}}
	name := opts.Store + "/" + opts.Terminal
	birth, death, err := t.presence()
	if err != nil {
		return nil, err
	}
	conn, err := Dial(ctx, opts.Addr, Login{User: name, Password: opts.Password, Will: &death}, t.receive)
	if err != nil {
		return nil, err
	}
	t.conn = conn // nothing is received before the subscription
	err = conn.Subscribe(ctx, opts.Topics.Terminal(opts.Store, opts.Terminal, protocol.KindOrders),
		opts.Topics.Offer(opts.Store, "+"))
	if err != nil {
		conn.Close()
		return nil, err
	}
	if err := conn.Send(birth); err != nil {
		return nil, err
	}
	return t, t.hello()
}

// presence returns what the terminal says about itself, and what the broker is
// to say when the connection ends. An embedded headquarters ignores both.
func (t *Terminal) presence() (birth, death Outgoing, err error) {
	p := protocol.Presence{Meta: t.Meta(), Online: true, Since: protocol.At(time.Now()), SessionID: ulid.Make().String()}
	topic := t.opts.Topics.Terminal(t.opts.Store, t.opts.Terminal, protocol.KindPresence)
	alive, err := protocol.Encode(p)
	if err != nil {
		return birth, death, err
	}
	p.Online = false
	dead, err := protocol.Encode(p)
	return Outgoing{Topic: topic, Payload: alive, Retain: true}, Outgoing{Topic: topic, Payload: dead, Retain: true}, err
}

// Close cuts the connection.
func (t *Terminal) Close() { t.conn.Close() }

// Tasks returns the ids of the tasks that were offered.
func (t *Terminal) Tasks() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]string, 0, len(t.tasks))
	for id := range t.tasks {
		ids = append(ids, id)
	}
	return ids
}

// Meta frames a message of this terminal.
func (t *Terminal) Meta() protocol.Meta {
	return protocol.Meta{ID: ulid.MustNew(ulid.Now(), rand.Reader).String(), At: protocol.At(time.Now()), Seq: t.seq.Add(1)}
}

// Send publishes v as one of the terminal's messages.
func (t *Terminal) Send(kind protocol.Kind, v any) error {
	payload, err := protocol.Encode(v)
	if err != nil {
		return err
	}
	return t.conn.Publish(t.opts.Topics.Terminal(t.opts.Store, t.opts.Terminal, kind), payload)
}

// NewResult frames a result of one attempt.
func (t *Terminal) NewResult(taskID string, attempt int, r Reply) protocol.Result {
	now := time.Now().UnixMilli()
	out := protocol.Result{Meta: t.Meta(), TaskID: taskID, Attempt: attempt, Outcome: protocol.AnswerSucceeded,
		Result: r.Result, StartedAt: now - t.opts.Delay.Milliseconds(), FinishedAt: now,
		DurationMs: t.opts.Delay.Milliseconds(), Executed: true}
	body := []byte(r.Result)
	if r.Failure != nil {
		encoded, err := protocol.Encode(r.Failure)
		if err != nil {
			panic(err) // a Failure always encodes
		}
		body = encoded
		out.Outcome, out.Result, out.Error = protocol.AnswerFailed, nil, body
	}
	sum := sha256.Sum256(body)
	out.SHA256 = hex.EncodeToString(sum[:])
	return out
}

// Claim asks for a task.
func (t *Terminal) Claim(taskID string) error {
	return t.Send(protocol.KindClaim, protocol.Claim{Meta: t.Meta(), TaskID: taskID})
}

func (t *Terminal) hello() error {
	return t.Send(protocol.KindHello, protocol.Hello{Meta: t.Meta(), AgentVersion: "fleet", Protocols: []int{1},
		Jobs: []protocol.JobVersion{}, Open: []protocol.OpenTask{}, ClockMs: time.Now().UnixMilli()})
}

func (t *Terminal) receive(m Message) {
	addr, ok := t.opts.Topics.Parse(m.Topic)
	if !ok {
		return
	}
	if addr.Kind == protocol.KindOffer {
		t.offered(addr.Task, m.Payload)
		return
	}
	var order protocol.Order
	if addr.Kind == protocol.KindOrders && protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &order) == nil {
		t.ordered(order)
	}
}

func (t *Terminal) offered(taskID string, payload []byte) {
	if len(payload) == 0 {
		t.observe("withdrawn", protocol.Order{TaskID: taskID})
		return
	}
	t.observe("offer", protocol.Order{TaskID: taskID})
	if t.opts.ClaimAfter > 0 {
		time.AfterFunc(t.opts.ClaimAfter, func() { t.consider(taskID, payload) })
		return
	}
	t.consider(taskID, payload)
}

// consider reads an offer and claims it.
func (t *Terminal) consider(taskID string, payload []byte) {
	var offer protocol.Offer
	if protocol.Decode(payload, protocol.MaxPayloadBytes, &offer) != nil {
		return
	}
	t.mu.Lock()
	h := t.tasks[taskID]
	if h == nil {
		h = &held{}
		t.tasks[taskID] = h
	}
	h.offer = offer
	claim := !t.opts.Mute && (!h.claimed || offer.Attempt >= h.attempt && h.attempt > 0)
	h.claimed = true
	t.mu.Unlock()
	if claim {
		t.claimAt(offer)
	}
}

// claimAt claims when the offer is due.
func (t *Terminal) claimAt(offer protocol.Offer) {
	wait := time.Until(time.UnixMilli(offer.NotBefore))
	if wait <= 0 {
		_ = t.Claim(offer.TaskID) // a dead connection ends the terminal
		return
	}
	time.AfterFunc(wait, func() { _ = t.Claim(offer.TaskID) })
}

func (t *Terminal) ordered(o protocol.Order) {
	t.observe(string(o.Order), o)
	switch o.Order {
	case protocol.OrderGrant:
		t.granted(o)
	case protocol.OrderSend:
		t.mu.Lock()
		h := t.tasks[o.TaskID]
		t.mu.Unlock()
		if h != nil && h.done != nil && h.done.Attempt == o.Attempt {
			_ = t.Send(protocol.KindProgress, protocol.Progress{Meta: t.Meta(), TaskID: o.TaskID, Attempt: o.Attempt, Percent: 100})
			_ = t.Send(protocol.KindResult, h.done)
		}
	case protocol.OrderDeny:
		if o.RetryAfterMs > 0 {
			time.AfterFunc(time.Duration(o.RetryAfterMs)*time.Millisecond, func() { _ = t.Claim(o.TaskID) })
		}
	case protocol.OrderSync:
		if o.HelloID == "" {
			_ = t.hello() // headquarters asks who is there
		}
	case protocol.OrderReceipt, protocol.OrderCancel:
	}
}

func (t *Terminal) granted(o protocol.Order) {
	t.mu.Lock()
	h := t.tasks[o.TaskID]
	if h == nil || o.Attempt <= h.attempt {
		t.mu.Unlock()
		return
	}
	h.attempt = o.Attempt
	offer := h.offer
	t.mu.Unlock()
	_ = t.Send(protocol.KindProgress, protocol.Progress{Meta: t.Meta(), TaskID: o.TaskID, Attempt: o.Attempt})
	if t.opts.Execute == nil {
		return
	}
	time.AfterFunc(t.opts.Delay, func() {
		result := t.NewResult(o.TaskID, o.Attempt, t.opts.Execute(offer, o.Attempt))
		t.mu.Lock()
		h.done = &result
		t.mu.Unlock()
		if len(result.Result) <= protocol.InlineLimit {
			_ = t.Send(protocol.KindResult, result)
			return
		}
		_ = t.Send(protocol.KindReady, protocol.Ready{Meta: t.Meta(), TaskID: o.TaskID, Attempt: o.Attempt,
			Bytes: int64(len(result.Result)), SHA256: result.SHA256})
	})
}

func (t *Terminal) observe(kind string, o protocol.Order) {
	if t.opts.Observe != nil {
		t.opts.Observe(kind, o)
	}
}
