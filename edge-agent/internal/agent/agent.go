// Package agent is the heart of a store terminal: it takes the offers of its
// store, claims them, runs what headquarters grants, and keeps every answer
// until headquarters has it.
//
// One goroutine owns all state. Messages, the ends of executions and the clock
// come to it as events; after each it does whatever is due. Nothing here waits
// for the network, and nothing is believed to have arrived before an order of
// headquarters says so: every message may be lost, doubled or reordered.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/identity"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
	"muster/edge-agent/internal/stamp"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// Sender hands messages to the link. True means handed over, not delivered.
type Sender interface {
	Send(kind protocol.Kind, payload []byte) bool
}

// Config is what the agent works with. Journal and Outbox are used by the
// agent alone from New on.
type Config struct {
	StoreID     string
	TerminalID  string
	Version     string // of this program
	Topics      protocol.Topics
	Jobs        executor.Registry
	Labels      map[string]string
	MaxParallel int // executions at a time, at least 1
	Refuse      Refuse
	Measure     func() protocol.Condition
	Journal     *journal.Journal
	Outbox      *outbox.Box
	Stamp       *stamp.Maker
	Logger      *slog.Logger
	// Identity knows headquarters' keys; nil: identity off, every message is
	// believed, as on a development machine.
	Identity *identity.Identity
}

// Refuse names the conditions under which the terminal runs nothing; zero
// means no such limit. A condition that cannot be measured forbids nothing.
type Refuse struct {
	MinBatteryPct float64
	MaxLoad       float64
	MinDiskFreeMB int64
}

const (
	// resendFrom and resendSpan: what headquarters has not answered is said
	// again after 15 to 30 s, spread so that a thousand terminals do not speak
	// at once.
	resendFrom = 15 * time.Second
	resendSpan = 15 * time.Second
	// resync is the mean time between two hellos of a quiet connection: it
	// heals an offer or a withdrawal that a broker dropped.
	resync = 10 * time.Minute
	// helloDelay lets the retained offers, which come right behind the
	// subscription, in first: hello then names them, and headquarters need not
	// publish them again.
	helloDelay = 100 * time.Millisecond
	// maxHello bounds the open list of a hello, so that it fits a message. A list
	// that was cut says so.
	maxHello = 1_000
	// stopWait bounds the wait for killed work when the agent stops: within
	// the 5 s that a service manager is promised, the link's goodbye included.
	stopWait = 3500 * time.Millisecond
	// maxTasks bounds the offers that are held. What is over comes again with
	// the next connection.
	maxTasks = 5_000
	// maxAnswers bounds unreceipted answers, 64 MiB at worst: with so many
	// waiting, nothing more is claimed. None is ever thrown away.
	maxAnswers = 256
)

// Agent does the work of one terminal.
type Agent struct {
	cfg     Config
	log     *slog.Logger
	journal *journal.Journal
	outbox  *outbox.Box
	refused *refusals
	events  chan event
	stopped chan struct{}

	// All below belongs to the loop.
	sender  Sender
	tasks   map[string]*work
	running int

	up      bool
	helloAt time.Time            // when to say hello; zero: not now
	hellos  map[string]time.Time // hellos of this connection, by id
	synced  bool                 // a sync answered a hello of this connection
	// unanswered counts the hellos since the last sync.
	unanswered int
	clock      hqClock
	window     *trust.Window // the numbers of headquarters' orders
	proven     time.Time     // the newest time that headquarters signed
	stopping   bool
	due        time.Time // the next moment at which something is due
	// nothingDue is set by an event after which there is nothing to look for: a
	// broker says thousands of offers again, and each look goes through them all.
	nothingDue bool
}

// event is something for the loop to do; done is closed after it.
type event struct {
	do   func(now time.Time)
	done chan struct{}
}

// work is one task as the loop sees it. What must survive a crash stands in
// the journal and the outbox.
type work struct {
	id      string
	offer   *protocol.Offer // nil: none is known now
	offerAt time.Time
	hash    string // of the offer

	lastClaim  time.Time
	claimUntil time.Time // an unanswered claim holds a place until then
	nextClaim  time.Time // not before
	refuseFrom time.Time // from when a task that cannot be done is refused

	grant *grant     // granted, and waiting for the offer or a free place
	run   *execution // running

	sendAt   time.Time      // when to send the answer in the outbox; zero: not now
	slot     bool           // headquarters gave a slot for a large result
	stale    bool           // the answer was refused as stale; kept for a new grant
	volatile *outbox.Answer // the answer while the disk refuses it
}

// grant is a granted attempt that is not yet started.
type grant struct {
	attempt int
	lease   time.Duration
	limit   time.Duration // of one execution; 0: as the offer says
	offer   string        // the Hash of the offer that may be run; "": any
	until   time.Time     // the lease ends; not started later
}

// hqClock is headquarters' clock, as of a sync and the own monotonic clock.
type hqClock struct {
	serverMs int64
	at       time.Time
}

func (c hqClock) known() bool { return !c.at.IsZero() }

func (c hqClock) nowMs(now time.Time) int64 {
	return c.serverMs + now.Sub(c.at).Milliseconds()
}

// New returns an agent that took up what the journal and the outbox hold:
// attempts that were cut off are answered as interrupted. It fails when it
// cannot write that down.
func New(cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg, log: cfg.Logger, journal: cfg.Journal, outbox: cfg.Outbox,
		events: make(chan event), stopped: make(chan struct{}), tasks: map[string]*work{}, hellos: map[string]time.Time{},
		refused: newRefusals(cfg.Logger)}
	seq, proven := cfg.Journal.Floor()
	a.window, a.proven = trust.NewWindow(orderWindow, seq), proven
	if err := a.restore(time.Now()); err != nil {
		return nil, fmt.Errorf("cannot take up earlier work: %w", err)
	}
	return a, nil
}

// Run works until ctx ends, then kills what is running and returns. What was
// cut off is answered as interrupted by the next agent in the same folder.
// Call it once.
func (a *Agent) Run(ctx context.Context, sender Sender) {
	defer close(a.stopped)
	a.sender = sender
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			a.stop()
			return
		case e := <-a.events:
			a.nothingDue = false
			e.do(time.Now())
			close(e.done)
			if a.nothingDue {
				continue
			}
		case <-timer.C:
		}
		timer.Reset(time.Until(a.work(time.Now())))
	}
}

// stop kills what runs and waits for its end, but not for ever.
func (a *Agent) stop() {
	a.stopping = true
	for _, w := range a.tasks {
		if w.run != nil {
			w.run.cancel(errStopping)
		}
	}
	timer := time.NewTimer(stopWait)
	defer timer.Stop()
	for a.running > 0 {
		select {
		case e := <-a.events:
			e.do(time.Now())
			close(e.done)
		case <-timer.C:
			a.log.Warn("work did not end in time", "running", a.running)
			return
		}
	}
}

// post gives the loop something to do and waits until it is done, or the loop
// has ended.
func (a *Agent) post(do func(now time.Time)) {
	e := event{do: do, done: make(chan struct{})}
	select {
	case a.events <- e:
	case <-a.stopped:
		return
	}
	select {
	case <-e.done:
	case <-a.stopped:
	}
}

// work does everything that is due and returns when it is to be called again.
func (a *Agent) work(now time.Time) time.Time {
	a.due = now.Add(time.Hour)
	if a.stopping {
		return a.due
	}
	if a.up && !a.helloAt.IsZero() && !a.later(a.helloAt, now) {
		a.sayHello(now)
	}
	for _, w := range a.tasks {
		a.expire(w, now)
		a.renew(w, now)
		if a.up && !w.sendAt.IsZero() && !a.later(w.sendAt, now) {
			a.sendAnswer(w, now)
		}
	}
	a.startGranted(now)
	a.claim(now)
	return a.due
}

// later reports whether at is still to come, and then sees to it that the loop
// looks again.
func (a *Agent) later(at, now time.Time) bool {
	if !at.After(now) {
		return false
	}
	if at.Before(a.due) {
		a.due = at
	}
	return true
}

// again has the loop look once more at once, for what came up behind it.
func (a *Agent) again(now time.Time) { a.due = now }

// untilServer is how long it is until headquarters' clock shows ms; more than a
// day counts as a day, after which the loop looks again.
func (a *Agent) untilServer(ms int64, now time.Time) time.Duration {
	const day = 24 * time.Hour / time.Millisecond
	left := ms - a.clock.nowMs(now)
	return time.Duration(min(max(left, -int64(day)), int64(day))) * time.Millisecond
}

// send encodes a message and hands it to the link.
func (a *Agent) send(kind protocol.Kind, message any) bool {
	payload, err := protocol.Encode(message)
	if err != nil {
		a.log.Error("message cannot be encoded", "kind", string(kind), "error", err)
		return false
	}
	return a.sender.Send(kind, payload)
}

// get returns the task, making it when absent.
func (a *Agent) get(taskID string) *work {
	w := a.tasks[taskID]
	if w == nil {
		w = &work{id: taskID}
		a.tasks[taskID] = w
	}
	return w
}

// fence is the highest attempt that was granted here or cancelled.
func (a *Agent) fence(taskID string) int {
	e, _ := a.journal.Get(taskID)
	return e.Attempt
}

// entry is a line for the journal. It keeps which offer the attempt executed, and
// how far headquarters is proven.
func (a *Agent) entry(taskID string, phase journal.Phase, attempt int) journal.Entry {
	e := journal.Entry{TaskID: taskID, Phase: phase, Attempt: attempt, Seq: a.window.Highest()}
	if !a.proven.IsZero() {
		e.ProvenAt = a.proven.UnixMilli()
	}
	if old, _ := a.journal.Get(taskID); old.Attempt == attempt {
		e.OfferSHA256 = old.OfferSHA256
	}
	return e
}

// record journals a phase for good.
func (a *Agent) record(taskID string, phase journal.Phase, attempt int) error {
	return a.journal.Put(a.entry(taskID, phase, attempt))
}

// note journals a phase that may be lost; an error is only logged.
func (a *Agent) note(taskID string, phase journal.Phase, attempt int) {
	if err := a.journal.Note(a.entry(taskID, phase, attempt)); err != nil {
		a.log.Warn("journal refuses a note", "task_id", taskID, "phase", string(phase), "error", err)
	}
}

// resendAfter is how long to wait for headquarters' answer.
func resendAfter() time.Duration { return resendFrom + rand.N(resendSpan) }
