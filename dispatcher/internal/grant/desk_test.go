package grant_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// desk is an admission over a bench.
type desk struct {
	*steptest.Bench
	*grant.Admission
	leases *leases
	tasks  *tasks
	t      testing.TB
	fed    hook         // before admission hears of changes
	off    atomic.Int64 // how far headquarters' time stepped
	frozen atomic.Int64 // for how long headquarters did not run
}

func (d *desk) now() time.Time { return time.Now().Add(time.Duration(d.off.Load())) }

// hook is what a test does in the middle of something, the next time it happens.
type hook struct{ act atomic.Pointer[func()] }

func (h *hook) next(act func()) { h.act.Store(&act) }

func (h *hook) pass() {
	if act := h.act.Swap(nil); act != nil {
		(*act)()
	}
}

// tasks lets a test act around a read and a grant, and counts what is asked.
type tasks struct {
	*store.Store
	read, granting, granted hook
	slow                    func(taskID string) time.Duration // how long a grant takes; nil: no time
	notes, runs             atomic.Int64
}

func (s *tasks) GetTask(ctx context.Context, taskID string) (store.Task, error) {
	t, err := s.Store.GetTask(ctx, taskID)
	s.read.pass()
	return t, err
}

func (s *tasks) GetRun(ctx context.Context, runID string) (store.Run, error) {
	s.runs.Add(1)
	return s.Store.GetRun(ctx, runID)
}

func (s *tasks) NoteClaim(ctx context.Context, taskID string, now time.Time) error {
	s.notes.Add(1)
	return s.Store.NoteClaim(ctx, taskID, now)
}

func (s *tasks) Grant(ctx context.Context, g store.Grant, now time.Time) (store.Granted, error) {
	s.granting.pass()
	if s.slow != nil {
		time.Sleep(s.slow(g.TaskID))
	}
	granted, err := s.Store.Grant(ctx, g, now)
	s.granted.pass()
	return granted, err
}

// leases lets a test act between the end of a lease and its commit, and fail it.
type leases struct {
	*store.Store
	beforeExpiry atomic.Pointer[func()]
	full         atomic.Bool     // nothing can be ended
	ghosts       []store.Running // said to run, beside what does

	mu   sync.Mutex
	ends []store.Answer
}

func (l *leases) ListRunning(ctx context.Context) ([]store.Running, error) {
	running, err := l.Store.ListRunning(ctx)
	return append(running, l.ghosts...), err
}

func (l *leases) Settle(ctx context.Context, a store.Answer, now time.Time) (store.Settled, error) {
	if act := l.beforeExpiry.Load(); act != nil {
		(*act)()
	}
	l.mu.Lock()
	l.ends = append(l.ends, a)
	l.mu.Unlock()
	if l.full.Load() {
		return store.Settled{}, errors.New("the disk is full")
	}
	return l.Store.Settle(ctx, a, now)
}

// ended tells how leases were ended: what was asked of the store.
func (l *leases) ended() (events []task.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.ends {
		events = append(events, a.Event)
	}
	return events
}

type limits struct {
	running   int
	perSecond float64
	burst     int
}

func wide() limits { return limits{running: 1000, perSecond: 0, burst: 1} }

// open starts an admission on a bench over the database at path, or a new one.
func open(t testing.TB, path string, l limits) *desk {
	t.Helper()
	d := &desk{t: t}
	observe := func(changes []store.Change) { d.fed.pass(); d.Changed(changes) }
	if path == "" {
		d.Bench = steptest.New(t, observe)
	} else {
		d.Bench = steptest.Open(t, path, observe)
	}
	d.leases, d.tasks = &leases{Store: d.Store}, &tasks{Store: d.Store}
	d.start(l)
	return d
}

// begun is a desk with wide limits and a run "r" of n stores, the first of which was
// granted its task.
func begun(t testing.TB, n int, p job.Policy) *desk {
	t.Helper()
	d := open(t, "", wide())
	d.Create("r", n, p)
	d.claim("r", 0)
	if len(d.grants()) != 1 {
		t.Fatal("the task is not granted")
	}
	return d
}

// start puts a new admission on the bench.
func (d *desk) start(l limits) {
	d.t.Helper()
	d.Admission = grant.New(grant.Config{Tasks: d.tasks, Attempts: d.leases, Grants: d.Store, Orders: d.Sender, Now: d.now, Awake: func() time.Time { return time.Now().Add(-time.Duration(d.frozen.Load())) },
		Logger: d.Logger, MaxRunning: l.running, PerSecond: l.perSecond, Burst: l.burst})
	if err := d.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(d.Admission.Stop)
}

func (d *desk) claimAs(terminal string, i int, taskID string) {
	d.t.Helper()
	from := steptest.From(i, protocol.KindClaim)
	from.Terminal = terminal
	if err := d.HandleClaim(d.t.Context(), from, steptest.Message(protocol.Claim{TaskID: taskID})); err != nil {
		d.t.Error(err)
	}
}

func (d *desk) claim(run string, i int) { d.claimAs("pos", i, steptest.TaskID(run, i)) }

func (d *desk) progress(run string, i, attempt int) {
	d.t.Helper()
	m := steptest.Message(protocol.Progress{TaskID: steptest.TaskID(run, i), Attempt: attempt})
	if err := d.HandleProgress(d.t.Context(), steptest.From(i, protocol.KindProgress), m); err != nil {
		d.t.Error(err)
	}
}

// answer settles an attempt as intake would.
func (d *desk) answer(run string, i, attempt int, event task.Event) store.Settled {
	d.t.Helper()
	a := store.Answer{Event: event, Attempt: store.Attempt{TaskID: steptest.TaskID(run, i), Attempt: attempt,
		StoreID: steptest.StoreID(i), TerminalID: "pos", Answer: protocol.AnswerSucceeded, SHA256: fmt.Sprint(run, i, attempt)}}
	settled, err := d.Store.Settle(d.t.Context(), a, d.now())
	if err != nil {
		d.t.Error(err)
	}
	return settled
}

func (d *desk) grants() []steptest.Sent {
	synctest.Wait()
	return d.Broker.Orders(protocol.OrderGrant)
}

func (d *desk) denials() []steptest.Sent {
	synctest.Wait()
	return d.Broker.Orders(protocol.OrderDeny)
}

// cleared names the offers that were withdrawn, in order, by their topics below
// muster/v1/stores/.
func (d *desk) cleared() (topics []string) {
	synctest.Wait()
	for _, s := range d.Broker.Sent() {
		if s.Retain && len(s.Payload) == 0 {
			topics = append(topics, strings.TrimPrefix(s.Topic, "muster/v1/stores/"))
		}
	}
	return topics
}

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
