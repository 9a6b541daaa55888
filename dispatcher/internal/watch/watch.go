// Package watch lets people follow runs: it publishes the retained state of
// each run, one event a store, and a human line a step.
//
// It only tells. Nothing depends on what it publishes, and it drops nothing
// silently: what cannot be published, or panics, is logged and overtaken by the
// next state.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// stateEvery is the shortest time between two states of one run: a fan-out
	// of 100,000 must not publish 100,000 counts.
	stateEvery = time.Second
	// stateKept is how long the broker keeps the state of a closed run, from its
	// close on, and leastKept how long one that is older: it takes the place of
	// what was said before.
	stateKept = 7 * 24 * time.Hour
	leastKept = time.Minute
	// olderAtOnce bounds the states of closed runs that are said again with the
	// others: at a start, what is open comes first.
	olderAtOnce = 20
	// maxWaiting bounds the events that wait to be published; the oldest give
	// way, and the retained state says what they would have said.
	maxWaiting = 200_000
)

// Lists names the runs whose state is said again.
type Lists interface {
	ListOpenRuns(ctx context.Context) ([]store.Run, error)
	ListRecentlyClosedRuns(ctx context.Context) ([]store.Run, error)
}

// Runs is what the watch reads.
type Runs interface {
	Lists
	GetRun(ctx context.Context, runID string) (store.Run, error)
	CountTasks(ctx context.Context, runID string) (map[task.Status]int, int, error)
	CountOnline(ctx context.Context, runID string) (int, error)
}

// Watch follows the change feed. Create it with New.
type Watch struct {
	runs    Runs
	sender  *transport.Sender
	waiting func(runID string) int
	ward    *quarantine.Ward
	log     *slog.Logger
	zone    *time.Location // in which people read times

	mu     sync.Mutex
	dirty  map[string]bool
	older  []string // closed runs, whose states come after those
	events []store.Change
	lost   int
	wake   chan struct{}

	tallies map[string]*tally // of open runs; the loop's alone

	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a watch that is not yet started. waiting tells how many claims of
// a run wait for a slot; ward keeps in what panics over one run, and may be nil. Its
// lines name times in UTC, see In.
func New(runs Runs, sender *transport.Sender, waiting func(runID string) int, ward *quarantine.Ward, log *slog.Logger) *Watch {
	return &Watch{runs: runs, sender: sender, waiting: waiting, ward: ward, log: log, zone: time.UTC,
		dirty: map[string]bool{}, tallies: map[string]*tally{}, wake: make(chan struct{}, 1)}
}

// In has the lines name times in a zone; call it before Start.
func (w *Watch) In(zone *time.Location) *Watch {
	w.zone = zone
	return w
}

// Start publishes the state of every run that is open or was closed last, since
// headquarters may have died before it said the end, then follows. It returns once
// it follows.
func (w *Watch) Start(ctx context.Context) error {
	if err := w.Refresh(ctx); err != nil {
		return err
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel, w.done = cancel, make(chan struct{})
	go w.follow(loop)
	return nil
}

// Stop ends the following. It may be called twice, or before Start.
func (w *Watch) Stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	<-w.done
}

// Changed takes changes from the store's feed and returns at once.
func (w *Watch) Changed(changes []store.Change) {
	w.mu.Lock()
	w.events = append(w.events, changes...)
	if over := len(w.events) - maxWaiting; over > 0 {
		for i := range w.events[:over] {
			w.dirty[w.events[i].RunID] = true
		}
		w.events = append([]store.Change(nil), w.events[over:]...)
		w.lost += over
	}
	w.mu.Unlock()
	w.signal()
}

// Refresh asks for a new state of every run that is open or was closed last, for
// example because the broker was reached anew.
func (w *Watch) Refresh(ctx context.Context) error {
	open, err := w.runs.ListOpenRuns(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the open runs: %w", err)
	}
	closed, err := w.runs.ListRecentlyClosedRuns(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	for _, run := range open {
		w.dirty[run.RunID] = true
	}
	w.older = nil
	for _, run := range closed {
		w.older = append(w.older, run.RunID)
	}
	w.mu.Unlock()
	w.signal()
	return nil
}

func (w *Watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watch) follow(ctx context.Context) {
	defer close(w.done)
	pace := time.NewTimer(0)
	defer pace.Stop()
	due := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-pace.C:
			due = true
		}
		wait := w.ward.Turn("the telling of runs", stateEvery, func() time.Duration {
			w.publishEvents(ctx)
			if due && w.publishStates(ctx) {
				due = false
				return stateEvery
			}
			return 0
		})
		if wait > 0 {
			pace.Reset(wait)
		}
	}
}

func (w *Watch) publishEvents(ctx context.Context) {
	w.mu.Lock()
	events, lost := w.events, w.lost
	w.events, w.lost = nil, 0
	for i := range events {
		w.dirty[events[i].RunID] = true
	}
	w.mu.Unlock()
	if lost > 0 {
		w.log.Warn("too many events wait to be published; the oldest were dropped", "dropped", lost)
		w.lose()
	}
	for _, c := range events {
		if ctx.Err() != nil {
			return
		}
		w.add(&c)
		topic := w.sender.Topics().Run(c.RunID, protocol.RunText)
		if c.Kind == store.TaskMoved && c.Task != nil {
			topic = w.sender.Topics().RunStore(c.RunID, c.Task.StoreID)
		}
		w.try(topic, func() error { return w.publishEvent(ctx, topic, c) })
	}
}

func (w *Watch) publishEvent(ctx context.Context, topic string, c store.Change) error {
	if c.Kind == store.TaskMoved && c.Task != nil {
		return w.sender.JSON(ctx, topic, w.storeEvent(c), transport.Options{})
	}
	return w.say(ctx, topic, Tell(c, w.zone))
}

func (w *Watch) storeEvent(c store.Change) protocol.StoreEvent {
	e := protocol.StoreEvent{Meta: w.sender.Meta(), RunID: c.RunID, StoreID: c.Task.StoreID, TaskID: c.Task.TaskID,
		Event: eventName(c), Status: c.Task.State.Status, Attempt: c.Task.State.Attempt, Terminal: c.Task.HolderID}
	if c.Attempt != nil && c.Attempt.Failure != nil {
		e.Code, e.Message = c.Attempt.Failure.Code, c.Attempt.Failure.Message
	}
	return e
}

func eventName(c store.Change) string {
	switch c.Task.State.Status {
	case task.Running:
		return "granted"
	case task.Succeeded:
		return "succeeded"
	case task.Cancelled:
		return "cancelled"
	case task.Failed:
		if !c.Task.State.Settled {
			return "attempt_failed"
		}
		return "failed"
	case task.Pending:
	}
	return "offered"
}

// publishStates publishes the state of every run that changed, or is to be counted
// again, and reports whether there was one or will be.
func (w *Watch) publishStates(ctx context.Context) bool {
	w.mu.Lock()
	dirty := w.dirty
	w.dirty = map[string]bool{}
	some := min(len(w.older), olderAtOnce)
	for _, runID := range w.older[:some] {
		dirty[runID] = true
	}
	w.older = w.older[some:]
	w.mu.Unlock()
	later := w.recount(dirty)
	for runID := range dirty {
		if ctx.Err() != nil {
			return true
		}
		topic := w.sender.Topics().Run(runID, protocol.RunState)
		w.try(topic, func() error { return w.publishState(ctx, topic, runID) })
	}
	return later || len(dirty) > 0
}

func (w *Watch) publishState(ctx context.Context, topic, runID string) error {
	run, err := w.runs.GetRun(ctx, runID)
	if err != nil {
		return fmt.Errorf("cannot read run %s: %w", runID, err)
	}
	t, err := w.tallied(ctx, &run)
	if err != nil {
		return err
	}
	w.milestone(ctx, &run, t)
	state, opts := w.report(&run, t), transport.Options{Retain: true}
	if state.Phase == protocol.PhaseClosed {
		opts.Expiry = min(max(stateKept-state.At.Sub(run.ClosedAt), leastKept), stateKept)
	}
	return w.sender.JSON(ctx, topic, state, opts)
}

func (w *Watch) report(run *store.Run, t *tally) protocol.RunStateReport {
	return protocol.RunStateReport{
		Meta: w.sender.Meta(), RunID: run.RunID, ParentRun: run.ParentRun, Job: run.Job, Phase: run.Phase(), Targets: run.Targets,
		Tasks: t.now(), Online: t.online, Waiting: w.waiting(run.RunID),
		BarrierAt: protocol.At(run.BarrierAt), MakeupTo: protocol.At(run.MakeupUntil), Revision: run.Revision,
	}
}

// try publishes on a topic, and tells when it cannot.
func (w *Watch) try(topic string, publish func() error) {
	if err := w.ward.Do(quarantine.AlarmStep, topic, publish); err != nil {
		w.log.Warn("cannot publish", "topic", topic, "error", err)
	}
}
