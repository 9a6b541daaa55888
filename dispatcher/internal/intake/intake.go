// Package intake brings results in: it gives terminals their turn to send large
// ones, judges what arrives, commits it, and gives the receipt.
//
// Executing costs headquarters nothing, collecting does: few uploads are in
// flight at once, and a token bucket pays for their bytes. Who announced a
// result is served in order of priority, then of asking, one of each terminal at
// a time: a second one would wait behind the first on the same link. Whatever
// arrives ends in exactly one of: committed with its move, kept as refused with a
// reason, answered as stale, or an error that leaves it with its sender.
//
// An answer that makes headquarters panic is tried three times, then kept aside
// and refused: it must not end headquarters, nor come for ever.
//
// Secrets that a terminal failed to black out go before anything is stored,
// logged or said; see package redact.
//
// A receipt is given only after the commit. The package grants nothing, ends no
// lease and publishes no report.
package intake

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/bucket"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/logs"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Tasks is what intake reads.
type Tasks interface {
	GetTask(ctx context.Context, taskID string) (store.Task, error)
	GetRun(ctx context.Context, runID string) (store.Run, error)
	ListAttempts(ctx context.Context, taskID string) ([]store.Attempt, error)
}

// Attempts is what intake moves.
type Attempts interface {
	Sign(ctx context.Context, s store.Sign, now time.Time) (bool, error)
	Settle(ctx context.Context, a store.Answer, now time.Time) (store.Settled, error)
}

// Jobs knows the schemas that results must keep to.
type Jobs interface {
	Get(name string) (job.Spec, bool)
}

// Leases is how admission learns that a terminal waits for headquarters, not
// headquarters for the terminal. It is called under intake's lock, so it must
// return at once and not call back.
type Leases interface {
	Pause(taskID string, attempt int)
	Resume(taskID string, attempt int)
}

// Orders reaches terminals. Order should not block on a slow one.
type Orders interface {
	Order(ctx context.Context, storeID, terminalID string, o protocol.Order) error
}

// Config wires intake. Every field but DemandOffer, Alarm, Quarantine, Ward and
// Awake is required. Now is what is stored and told, and may step; turns and the
// budget go by Awake.
type Config struct {
	Tasks          Tasks
	Attempts       Attempts
	Jobs           Jobs
	Leases         Leases
	Orders         Orders
	Now            func() time.Time
	Logger         *slog.Logger
	InFlight       int     // uploads at once, at least 1
	BytesPerSecond float64 // of announced results; 0: no limit
	BurstBytes     int     // at once, at least 1

	// DemandOffer refuses what was executed without naming its offer; a result
	// that names another offer is refused in any case.
	DemandOffer bool
	// Alarm is told, at most once a minute a terminal, that secrets came in
	// clear: AlarmSecret, "store/terminal", and an error that names job and
	// task; likewise quarantine.AlarmPanicked, and AlarmQuarantined for every
	// answer that is given up. It must return at once.
	Alarm func(kind, subject string, trouble error)
	// Quarantine counts and keeps answers that headquarters broke on; nil: they
	// are tried whenever they come.
	Quarantine *quarantine.Quarantine
	// Ward is told of a turn that makes headquarters panic.
	Ward *quarantine.Ward
	// Awake counts on only while headquarters runs; nil is time.Now.
	Awake func() time.Time
}

// Intake is the step. Create it with New; its methods are safe for concurrent
// use.
type Intake struct {
	cfg Config
	log *slog.Logger

	sparing logs.Sparing
	memory  memory

	mu     sync.Mutex
	line   line
	tokens *bucket.Bucket

	wake   chan struct{}
	cancel context.CancelFunc
	loop   sync.WaitGroup
	stats  counters
	leaks  leaks
}

type counters struct {
	unreadable, unjudged, invalid, panicked, broke, quarantined, stale, duplicate, unasked, accepted, timedOut, redacted, receipts, refusals atomic.Int64
}

// Stats counts since the start.
type Stats struct {
	Unreadable int64 // messages that name no attempt; only logged
	Unjudged   int64 // answers of jobs that are not registered; not received
	Invalid    int64 // answers refused by shape, size, hash or schema
	Panicked   int64 // answers that made the validator panic; also invalid
	Broke      int64 // messages that made headquarters itself panic, each try
	Quarantine int64 // answers given up for that; also invalid
	Stale      int64 // answers to what is over
	Duplicate  int64 // answers that were stored before
	Unasked    int64 // large results that came without an order to send
	Accepted   int64
	TimedOut   int64 // uploads that did not come in time
	Redacted   int64 // answers in which secrets had to be blacked out
	Receipts   int64 // receipts given that accept, each time
	Refusals   int64 // and those that refuse
	Waiting    int   // announced results that wait for their turn
	InFlight   int   // uploads that were called for
}

// New returns an intake that is not yet started. Its budget is empty, since what was
// used before a restart is known to nobody: that is a burst's time at most, and a
// restart is no way around the rate.
func New(cfg Config) *Intake {
	if cfg.Awake == nil {
		cfg.Awake = time.Now
	}
	return &Intake{
		cfg:    cfg,
		log:    cfg.Logger,
		line:   newLine(),
		tokens: bucket.Empty(cfg.BytesPerSecond, cfg.BurstBytes, cfg.Awake()),
		wake:   make(chan struct{}, 1),
	}
}

// Start begins to call for announced results. There is nothing to rebuild:
// terminals announce again until they are called. It returns at once.
func (i *Intake) Start(ctx context.Context) error {
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	i.cancel = cancel
	i.loop.Go(func() { i.collect(loop) })
	return nil
}

// Stop ends the calling and waits for it. It may be called twice, or before
// Start.
func (i *Intake) Stop() {
	if i.cancel == nil {
		return
	}
	i.cancel()
	i.loop.Wait()
}

// Changed follows the store's change feed: an attempt that ended needs no turn.
// It returns at once.
func (i *Intake) Changed(changes []store.Change) {
	i.memory.follow(changes)
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range changes {
		if c.Kind == store.TaskMoved && c.From.Status == task.Running {
			i.leave(upload{c.Task.TaskID, c.From.Attempt})
		}
	}
}

// leave takes a result out of the line, and has others called for if it was there.
func (i *Intake) leave(u upload) {
	if i.line.remove(u) {
		i.signal()
	}
}

// Stats returns what was counted since the start.
func (i *Intake) Stats() Stats {
	i.mu.Lock()
	waiting, inFlight := len(i.line.waiting), len(i.line.sending)
	i.mu.Unlock()
	return Stats{
		Unreadable: i.stats.unreadable.Load(),
		Unjudged:   i.stats.unjudged.Load(),
		Invalid:    i.stats.invalid.Load(),
		Panicked:   i.stats.panicked.Load(),
		Broke:      i.stats.broke.Load(),
		Quarantine: i.stats.quarantined.Load(),
		Stale:      i.stats.stale.Load(),
		Duplicate:  i.stats.duplicate.Load(),
		Unasked:    i.stats.unasked.Load(),
		Accepted:   i.stats.accepted.Load(),
		TimedOut:   i.stats.timedOut.Load(),
		Redacted:   i.stats.redacted.Load(),
		Receipts:   i.stats.receipts.Load(),
		Refusals:   i.stats.refusals.Load(),
		Waiting:    waiting,
		InFlight:   inFlight,
	}
}

// tell publishes an order; one that is lost is asked for again by its
// terminal.
func (i *Intake) tell(ctx context.Context, who terminal, o protocol.Order) {
	if err := i.cfg.Orders.Order(ctx, who.store, who.id, o); err != nil {
		if left, due := i.due(who, "untold"); due {
			i.log.Warn("an order could not be published", "order", string(o.Order), "task_id", o.TaskID,
				"store_id", who.store, "terminal_id", who.id, "error", err, "left_out", left)
		}
	}
}

// due says whether a line about a terminal is due: it causes as many as it likes.
func (i *Intake) due(who terminal, what string) (leftOut int64, due bool) {
	return i.sparing.Due(who.store+"/"+who.id+" "+what, i.cfg.Now())
}

func (i *Intake) signal() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}
