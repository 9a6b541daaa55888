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
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/agent/refused"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
	"muster/internal/protocol"
	"muster/internal/trust"
)

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
	// waiting, no more work is claimed, and the log says so. None is ever thrown
	// away.
	maxAnswers = 256
)

// Agent does the work of one terminal.
type Agent struct {
	cfg     Config
	log     *slog.Logger
	journal *journal.Journal
	outbox  *outbox.Box
	refused *refused.Counter
	// instance is this process: another machine may bear this terminal's
	// identity, and a grant is for one of them.
	instance string
	events   chan event
	stopped  chan struct{}

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
	seen       struct{ wall, at time.Time } // the clock on the wall, when it was looked at
	window     *trust.Window                // the numbers of headquarters' orders
	proven     time.Time                    // the newest time that headquarters signed
	unkept     []byte                       // a list of headquarters' keys that could not be written down
	unkeptAt   time.Time                    // when it is tried again
	disk       medium
	full       bool // so many answers wait that no work is claimed
	stopping   bool
	due        time.Time // the next moment at which something is due
	// nothingDue is set by an event after which there is nothing to look for: a
	// broker says thousands of offers again, and each look goes through them all.
	nothingDue bool
}

// event is something for the loop to do; done is closed after it, and after what
// became due by it.
type event struct {
	do   func(now time.Time)
	done chan struct{}
}

// New returns an agent that took up what the journal and the outbox hold:
// attempts that were cut off are answered as interrupted.
func New(cfg Config) *Agent {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Agent{cfg: cfg, log: cfg.Logger, journal: cfg.Journal, outbox: cfg.Outbox,
		events: make(chan event), stopped: make(chan struct{}), tasks: map[string]*work{}, hellos: map[string]time.Time{},
		instance: ulid.Make().String(), refused: refused.New(cfg.Logger), disk: medium{owed: map[string]journal.Entry{}}}
	seq, proven := cfg.Journal.Floor()
	a.window, a.proven = trust.NewWindow(orderWindow, seq), proven
	now := time.Now()
	if err := cfg.Journal.Trouble(); err != nil {
		a.refuses(err, now)
	}
	a.restore(now)
	return a
}

// Refused counts the messages that were refused since the start, by reason.
func (a *Agent) Refused() map[refused.Reason]int64 { return a.refused.Counts() }

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
			if !a.nothingDue {
				timer.Reset(time.Until(a.work(time.Now())))
			}
			close(e.done) // only now: a grant is acknowledged when its start is journalled
		case <-timer.C:
			timer.Reset(time.Until(a.work(time.Now())))
		}
	}
}

// stop kills what runs and waits for its end, but not for ever.
func (a *Agent) stop() {
	a.stopping = true
	for _, w := range a.tasks {
		if w.run != nil {
			w.run.cancel(ending.ErrStopping)
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
	a.watchWall(now)
	a.look(now)
	a.tryDisk(now)
	a.tryKeys(now)
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

// resendAfter is how long to wait for headquarters' answer.
func resendAfter() time.Duration { return resendFrom + rand.N(resendSpan) }
