// Package grant is admission: it decides which claim may run next and keeps
// the leases of what runs.
//
// A claim waits in memory until a slot under the caps on RUNNING is free and a
// token of the grant budget is there, overall and of its run. Who waits is
// served in order of priority, then of asking; a run that is at its own limit
// does not hold up the others. The slot is taken first, then the token, then
// the grant is committed and published. A slot comes back only with the
// committed end of its attempt, as the store's change feed tells it.
//
// Nothing here is truth: slots and leases are rebuilt from the store at start,
// and terminals claim again until they are answered. The package executes no
// task, reads no result and publishes no offer.
package grant

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/bucket"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/logs"
	"muster/internal/protocol"
)

const (
	// StartTimeout bounds the silence between a grant and the first sign of
	// life: a terminal answers or reports the start within a second or two, so what
	// is silent for longer never got the grant or is gone, and its slot is wanted by
	// others.
	StartTimeout = 30 * time.Second
	// claimLife is how long a claim waits without being repeated. Terminals
	// claim again every 15 to 30 s; one that missed four times is gone, whether
	// or not the broker noticed.
	claimLife = 2 * time.Minute
	// batchSize bounds how many grants, notes or expiries are committed side by side,
	// as many as the store commits at once. They are published in order.
	batchSize = 512
	// noteAhead is how long before its run's barrier a claim is noted though it is
	// likely to be granted soon: 100,000 are noted in that time.
	noteAhead = 10 * time.Second
	// retryDelay is the pause after the store failed to end an attempt, and after a
	// panic before a loop goes on.
	retryDelay = 5 * time.Second
	// maxClaimBytes bounds claims and progress: both are a few hundred bytes.
	maxClaimBytes = 16 << 10
)

// Tasks is what admission reads and moves.
type Tasks interface {
	GetTask(ctx context.Context, taskID string) (store.Task, error)
	GetRun(ctx context.Context, runID string) (store.Run, error)
	NoteClaim(ctx context.Context, taskID string, now time.Time) error
	Grant(ctx context.Context, g store.Grant, now time.Time) (store.Granted, error)
}

// Attempts is how leases are kept and ended.
type Attempts interface {
	ListRunning(ctx context.Context) ([]store.Running, error)
	ExtendLeases(ctx context.Context, until, now time.Time) error
	Sign(ctx context.Context, s store.Sign, now time.Time) (bool, error)
	Settle(ctx context.Context, a store.Answer, now time.Time) (store.Settled, error)
}

// Grants is what admission granted before it started: the newest, at most so
// many, of the run or of all for "", the oldest first.
type Grants interface {
	RecentGrants(ctx context.Context, runID string, most int) ([]time.Time, error)
}

// Orders reaches terminals. Order should not block on a slow one.
type Orders interface {
	Order(ctx context.Context, storeID, terminalID string, o protocol.Order) error
	ClearOffer(ctx context.Context, storeID, taskID string) error
}

// Config wires admission. Every field but Awake and Ward is required. Now is what is
// stored and told, and may step; budgets and what waits go by time.Now.
type Config struct {
	Tasks      Tasks
	Attempts   Attempts
	Grants     Grants
	Orders     Orders
	Now        func() time.Time
	Logger     *slog.Logger
	MaxRunning int     // cap on RUNNING over all runs, at least 1
	PerSecond  float64 // grants a second over all runs; 0: no limit
	Burst      int     // grants at once, at least 1

	// Awake is what leases go by: it counts on only while headquarters runs, so that
	// nobody is taken for silent who was not listened to. nil is time.Now.
	Awake func() time.Time

	// Ward is told of a claim, an order, the end of a lease or the turn of a loop
	// that makes headquarters panic.
	Ward *quarantine.Ward
}

// Admission is the step. Create it with New; its methods are safe for
// concurrent use.
type Admission struct {
	cfg Config
	log *slog.Logger

	sparing logs.Sparing

	mu     sync.Mutex
	queue  queue
	slots  slots
	tokens *bucket.Bucket
	runs   map[string]*run
	fresh  map[*run][]*claim // that a pass has yet to look at; no list is empty
	orders []order           // to be published by the loop

	admitWake chan struct{}
	cancel    context.CancelFunc
	loops     sync.WaitGroup
	stats     counters
}

// run is what admission knows of one run.
type run struct {
	store.Run
	offers transport.Offers
	tokens *bucket.Bucket // nil: only the overall budget
	held   int            // its slots
}

// order is one thing to tell a terminal.
type order struct {
	who  terminal
	over bool // a denial of what has no offer any more
	protocol.Order
}

// alone does what is about one task and one terminal: if it panics, that is told,
// and all else goes on.
func (a *Admission) alone(what, taskID string, who terminal, do func() error) error {
	return a.cfg.Ward.Do(quarantine.AlarmStep, what+" of task "+taskID+", terminal "+who.store+"/"+who.id, do)
}

// terminal is an address.
type terminal struct{ store, id string }

type counters struct {
	malformed, granted, resent, denied, expired atomic.Int64
}

// Stats counts since the start.
type Stats struct {
	Malformed int64 // messages that could not be read
	Granted   int64
	Resent    int64 // lost grants said again
	Denied    int64
	Expired   int64 // leases that ended without an answer
	Waiting   int   // claims that wait now
	Running   int   // slots in use now
}

// New returns an admission that is not yet started.
func New(cfg Config) *Admission {
	if cfg.Awake == nil {
		cfg.Awake = time.Now
	}
	return &Admission{
		cfg:       cfg,
		log:       cfg.Logger,
		queue:     newQueue(),
		slots:     newSlots(),
		tokens:    bucket.New(cfg.PerSecond, cfg.Burst),
		runs:      map[string]*run{},
		fresh:     map[*run][]*claim{},
		admitWake: make(chan struct{}, 1),
	}
}

// Start takes over what runs, with a full lease each since headquarters was
// away, and the budgets as the last grants left them, and then admits. It returns once claims may come. Changes must reach
// Changed from before Start on.
func (a *Admission) Start(ctx context.Context) error {
	running, err := a.cfg.Attempts.ListRunning(ctx)
	if err != nil {
		return fmt.Errorf("cannot list what runs: %w", err)
	}
	now := a.cfg.Now()
	tokens, err := a.budget(ctx, "", a.cfg.PerSecond, a.cfg.Burst)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.tokens = tokens
	a.mu.Unlock()
	longest := StartTimeout
	for _, r := range running {
		known, err := a.run(ctx, r.Task.RunID)
		if err != nil {
			return err
		}
		longest = max(longest, known.Policy.Lease)
		a.takeOver(known, r)
	}
	if len(running) > 0 {
		if err := a.cfg.Attempts.ExtendLeases(ctx, now.Add(longest), now); err != nil {
			return fmt.Errorf("cannot extend the leases: %w", err)
		}
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.loops.Go(func() { a.admitLoop(loop) })
	a.loops.Go(func() { a.leaseLoop(loop) })
	return nil
}

// Stop ends both loops and waits for them; what they are committing is
// committed. It may be called twice, or before Start.
func (a *Admission) Stop() {
	if a.cancel == nil {
		return
	}
	a.cancel()
	a.loops.Wait()
}

// Waiting tells how many claims of the run wait for a slot or a token.
func (a *Admission) Waiting(runID string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queue.waiting(runID)
}

// Stats returns what was counted since the start.
func (a *Admission) Stats() Stats {
	a.mu.Lock()
	waiting, running := len(a.queue.claims), len(a.slots.byTask)
	a.mu.Unlock()
	return Stats{
		Malformed: a.stats.malformed.Load(),
		Granted:   a.stats.granted.Load(),
		Resent:    a.stats.resent.Load(),
		Denied:    a.stats.denied.Load(),
		Expired:   a.stats.expired.Load(),
		Waiting:   waiting,
		Running:   running,
	}
}

// run returns what is known of a run, reading it once.
func (a *Admission) run(ctx context.Context, runID string) (*run, error) {
	a.mu.Lock()
	known := a.runs[runID]
	a.mu.Unlock()
	if known != nil {
		return known, nil
	}
	r, err := a.cfg.Tasks.GetRun(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("cannot read run %s: %w", runID, err)
	}
	var tokens *bucket.Bucket
	if r.Policy.GrantRate > 0 {
		if tokens, err = a.budget(ctx, runID, r.Policy.GrantRate, r.Policy.GrantBurst); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known = a.runs[runID]; known == nil {
		known = &run{Run: r, offers: transport.NewOffers(r), tokens: tokens}
		a.runs[runID] = known
	}
	return known, nil
}

const (
	// replayed is how many grants, counted in bursts, a budget is made again from:
	// enough that what came before them hardly matters.
	replayed = 4
	// mostReplayed bounds them: read in a tenth of a second.
	mostReplayed = 20_000
)

// budget is the budget of a run, or of all for "", as the grants in the store
// left it: a restart is no way around it.
func (a *Admission) budget(ctx context.Context, runID string, perSecond float64, burst int) (*bucket.Bucket, error) {
	if perSecond <= 0 {
		return bucket.New(perSecond, burst), nil
	}
	most := min(max(burst, 1), mostReplayed/replayed) * replayed
	taken, err := a.cfg.Grants.RecentGrants(ctx, runID, most)
	if err != nil {
		return nil, fmt.Errorf("cannot tell what is left of a budget: %w", err)
	}
	own, now := a.cfg.Now(), time.Now()
	for i, at := range taken {
		taken[i] = now.Add(at.Sub(own))
	}
	return bucket.After(perSecond, burst, taken, len(taken) < most, now), nil
}

// tell publishes an order; one that is lost is asked for again by its
// terminal.
func (a *Admission) tell(ctx context.Context, o order) {
	if err := a.cfg.Orders.Order(ctx, o.who.store, o.who.id, o.Order); err != nil {
		if left, due := a.due(o.who, "untold"); due {
			a.log.Warn("an order could not be published", "order", string(o.Order.Order), "task_id", o.TaskID,
				"store_id", o.who.store, "terminal_id", o.who.id, "error", err, "left_out", left)
		}
	}
}

// due says whether a line about a terminal is due: it causes as many as it likes.
func (a *Admission) due(who terminal, what string) (leftOut int64, due bool) {
	return a.sparing.Due(who.store+"/"+who.id+" "+what, a.cfg.Now())
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
