// Package offer keeps the retained offers on the broker as the store says they
// should be: one for every open task, none for a settled one. A broker in the same
// process keeps none: it asks for those of a filter that is subscribed to.
//
// It does not replay events but repairs state. A change only marks its task;
// the worker of the task's store then looks at what the task is now and
// publishes that. So changes, lists and retries may come in any order and any
// number, and the last word on a topic is always the newest state. A failed
// publish is tried again until it succeeds, and so is one that panics, apart from
// its lane.
//
// It decides nothing about a task, grants nothing and reads nothing from the
// broker, which may lose everything at any moment.
package offer

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/logs"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// lanes publish side by side. A store always has the same lane, which keeps
	// what is said on each of its topics in order.
	lanes = 16
	// streamed bounds how many listed tasks wait to be published: enough to
	// keep the lanes busy, few beside the 100,000 of a large run.
	streamed = 4096
	// sweepEvery is how often, and after how long, an offer that an online
	// store did not answer is published again: brokers drop messages to a slow
	// reader without saying so. It fits six times into the usual barrier.
	sweepEvery = 20 * time.Second
	// publishTimeout bounds one publish: a broker that takes longer is down.
	publishTimeout = 10 * time.Second
	// maxRuns bounds the runs that are remembered.
	maxRuns = 256
)

// Tasks is what offers are made of.
type Tasks interface {
	Lists
	GetTask(ctx context.Context, taskID string) (store.Task, error)
	GetRun(ctx context.Context, runID string) (store.Run, error)
}

// Lists names the tasks that are open: whole, those that nobody claimed, and those that
// a subscriber is told of.
type Lists interface {
	OpenTasks(ctx context.Context, runID, storeID string) iter.Seq2[store.Task, error]
	Unclaimed(ctx context.Context, young, now time.Time) iter.Seq2[[2]string, error]
	ListOpen(ctx context.Context, storeID string) ([]store.OpenTask, error)
}

// Sender publishes offers and withdraws them.
type Sender interface {
	Meta() protocol.Meta
	Topics() protocol.Topics
	Frame(topic string, v any, opts transport.Options) (transport.Outbound, error)
	Send(ctx context.Context, out transport.Outbound) error
}

// Config wires the offers. Every field but Wanted and Ward is required.
type Config struct {
	Tasks  Tasks
	Sender Sender
	Online func(storeID string) bool // whether any terminal of the store is
	// Wanted reports whether anybody subscribes to a topic now, of a broker that asks
	// for the offers of a filter when it is subscribed to (Retained) and keeps none
	// itself; nil for one that keeps them.
	Wanted func(topic string) bool
	Now    func() time.Time
	Logger *slog.Logger
	// Ward keeps in, and tells of, a panic over one task or list; nil: nobody is
	// told.
	Ward *quarantine.Ward
}

// Offers is the step. Create it with New; its methods are safe for concurrent
// use.
type Offers struct {
	cfg     Config
	log     *slog.Logger
	sparing logs.Sparing

	lanes [lanes]*lane
	room  chan struct{} // one for each streamed task that waits

	mu    sync.Mutex
	lists []list
	runs  map[string]*run
	waves map[string]*wave // by the run that is being created
	wake  chan struct{}

	rush atomic.Pointer[wave] // the newest that is not known to be out

	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// run is what offers need of a run.
type run struct {
	store.Run
	offers transport.Offers
}

func newRun(r store.Run) *run { return &run{r, transport.NewOffers(r)} }

// list asks to publish the open tasks of a run and of a store, "" meaning any.
type list struct {
	run, store string
	wave       *wave // has the tasks; nil: the store has them
	unanswered bool  // only what an online store did not answer
}

// New returns offers that are not yet started.
func New(cfg Config) *Offers {
	o := &Offers{cfg: cfg, log: cfg.Logger, room: make(chan struct{}, streamed),
		runs: map[string]*run{}, waves: map[string]*wave{}, wake: make(chan struct{}, 1)}
	for i := range o.lanes {
		o.lanes[i] = newLane()
	}
	return o
}

// Start publishes everything that is open, since the broker may have lost it,
// and then follows the changes. It returns at once; publishing goes on behind. To a
// broker that asks it publishes nothing yet: nobody is there.
func (o *Offers) Start(ctx context.Context) error {
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	for _, l := range o.lanes {
		o.loops.Go(func() { o.work(loop, l) })
	}
	o.loops.Go(func() { o.follow(loop) })
	if o.cfg.Wanted == nil {
		o.Republish("")
	}
	return nil
}

// Stop ends the publishing and waits for it; what was not published is at the
// next Start. It may be called twice, or before Start.
func (o *Offers) Stop() {
	if o.cancel == nil {
		return
	}
	o.cancel()
	o.loops.Wait()
}

// Republish publishes the open offers of a store again, or of all stores for
// "". It returns at once.
func (o *Offers) Republish(storeID string) { o.ask(list{store: storeID}) }

func (o *Offers) ask(wanted list) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lists {
		if l == wanted {
			return
		}
	}
	o.lists = append(o.lists, wanted)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Changed follows the store's change feed. It returns at once.
func (o *Offers) Changed(changes []store.Change) {
	for _, c := range changes {
		switch c.Kind {
		case store.RunCreated:
			o.remember(newRun(*c.Run))
			o.ask(list{run: c.RunID, wave: o.begin(c.RunID)})
		case store.TaskMoved:
			if c.Task.State.Status != task.Running {
				o.lane(c.Task.StoreID).mark(c.Task.StoreID, c.Task.TaskID, c.Task.State.Settled)
			}
		case store.RunClosed:
			o.forget(c.RunID)
		case store.RevisionReady:
		}
	}
}

// follow runs one list after another, and asks for the unanswered ones itself.
func (o *Offers) follow(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			o.ask(list{unanswered: true})
		case <-o.wake:
		}
		for l, more := o.next(); more && ctx.Err() == nil; l, more = o.next() {
			err := o.cfg.Ward.Do(quarantine.AlarmStep, fmt.Sprintf("listing what is open of run %q at store %q", l.run, l.store), func() error {
				switch {
				case l.unanswered:
					return o.sweep(ctx)
				case l.wave != nil:
					return o.publishWave(ctx, l.wave)
				}
				return o.publishList(ctx, l)
			})
			if err == nil || ctx.Err() != nil {
				continue
			}
			if left, due := o.sparing.Due("unlisted", o.cfg.Now()); due {
				o.log.Error("open tasks could not be listed; it is tried again", "run_id", l.run, "store_id", l.store, "error", err, "left_out", left)
			}
			l.wave = nil // the store knows what is left
			o.askLater(ctx, l)
		}
	}
}

func (o *Offers) next() (list, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lists) == 0 {
		return list{}, false
	}
	l := o.lists[0]
	o.lists = slices.Delete(o.lists, 0, 1) // and forgets its wave, which has every task of a run
	return l, true
}

func (o *Offers) askLater(ctx context.Context, l list) {
	timer := time.NewTimer(retryFirst)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		o.ask(l)
	}
}

// publishList streams open tasks to their lanes.
func (o *Offers) publishList(ctx context.Context, wanted list) error {
	for _, l := range o.lanes {
		l.beginList()
	}
	defer o.endList()
	for t, err := range o.cfg.Tasks.OpenTasks(ctx, wanted.run, wanted.store) {
		if err != nil {
			return fmt.Errorf("cannot list open tasks: %w", err)
		}
		if !o.wanted(t.StoreID, t.TaskID) {
			continue
		}
		if err := o.pass(ctx, work{store: t.StoreID, task: t.TaskID, listed: &t}); err != nil {
			return err
		}
	}
	return nil
}

func (o *Offers) endList() {
	for _, l := range o.lanes {
		l.endList()
	}
}

// sweep publishes again what an online store did not answer. A new offer is left time
// to be answered; one that was made after now is from before the clock was set back.
func (o *Offers) sweep(ctx context.Context) error {
	now := o.cfg.Now()
	for ids, err := range o.cfg.Tasks.Unclaimed(ctx, now.Add(-sweepEvery), now) {
		if err != nil {
			return fmt.Errorf("cannot list what is unanswered: %w", err)
		}
		if storeID, taskID := ids[0], ids[1]; o.cfg.Online(storeID) {
			o.lane(storeID).mark(storeID, taskID, false)
		}
	}
	return nil
}

// pass hands a streamed task to its lane and waits for room. A lane that cannot
// publish gets the name alone, so that the list, which holds the store's read
// transaction open, does not wait for the broker.
func (o *Offers) pass(ctx context.Context, w work) error {
	l := o.lane(w.store)
	select {
	case o.room <- struct{}{}:
	case <-l.failed():
		l.mark(w.store, w.task, false)
		w.wave.dealt()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	if !l.stream(w) {
		<-o.room
		w.wave.dealt()
	}
	return nil
}

func (o *Offers) lane(storeID string) *lane {
	var hash uint32 = 2166136261 // FNV-1a
	for i := range len(storeID) {
		hash = (hash ^ uint32(storeID[i])) * 16777619
	}
	return o.lanes[hash%lanes]
}
