package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// t0 is when every test's run is ordered, on a whole millisecond.
var t0 = time.Date(2026, 9, 17, 2, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// bundle is an open store on a real file and what its observer heard.
type bundle struct {
	*store.Store
	t    testing.TB
	path string

	mu      sync.Mutex
	changes []store.Change
}

func setup(t testing.TB) *bundle {
	t.Helper()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *bundle) open() {
	b.t.Helper()
	s, err := store.Open(context.Background(), store.Options{Path: b.path})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Store = s
	s.Observe(func(changes []store.Change) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.changes = append(b.changes, changes...)
	})
}

func (b *bundle) close() {
	b.t.Helper()
	if n := b.InUse(); n != 0 {
		b.t.Errorf("%d read connections are still in use", n)
	}
	if err := b.Close(); err != nil {
		b.t.Error(err)
	}
}

func (b *bundle) reopen() {
	b.t.Helper()
	b.close()
	b.open()
}

// heard returns and forgets what observers were told so far.
func (b *bundle) heard() []store.Change {
	b.t.Helper()
	if err := b.Told(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.changes
	b.changes = nil
	return out
}

func policy() job.Policy {
	return job.Policy{
		Attempts: 2, RunTimeout: time.Minute, Lease: 30 * time.Second, Barrier: 2 * time.Minute,
		Makeup: time.Hour, Late: job.AcceptAndRevise, RetryFirst: time.Second, RetryMax: time.Minute,
	}
}

func newRun(id string) store.Run {
	return store.Run{
		RunID: id, Job: "collect_log", JobVersion: 1, RequestedBy: "ada", Reason: "morning check",
		Input: json.RawMessage(`{"date":"2026-09-16"}`), Policy: policy(),
		Columns:   []protocol.Column{{Name: "lines", Pointer: "/lines", Title: "Lines"}},
		CreatedAt: t0, BarrierAt: at(2 * time.Minute), MakeupUntil: at(time.Hour),
	}
}

func targets(n int) ([]store.Place, []store.NewTask) {
	places := make([]store.Place, n)
	tasks := make([]store.NewTask, n)
	for i := range n {
		id := fmt.Sprintf("%06d", i)
		places[i] = store.Place{StoreID: id, Name: "Store " + id, TimeZone: "Asia/Shanghai", Labels: map[string]string{"city": "杭州"}}
		tasks[i] = store.NewTask{TaskID: "T" + id, StoreID: id}
	}
	return places, tasks
}

// create makes run "R" with n stores 000000… and tasks T000000….
func (b *bundle) create(n int, change ...func(*store.Run)) store.Run {
	b.t.Helper()
	run := newRun("R")
	for _, f := range change {
		f(&run)
	}
	places, tasks := targets(n)
	created, err := b.CreateRun(b.t.Context(), run, places, tasks, store.Request{}, t0)
	if err != nil {
		b.t.Fatal(err)
	}
	return created.Run
}

func (b *bundle) grant(i int, now time.Time) store.Task {
	b.t.Helper()
	g, err := b.Grant(b.t.Context(), store.Grant{TaskID: taskID(i), StoreID: storeID(i), TerminalID: "pos1", LeaseUntil: now.Add(30 * time.Second)}, now)
	if err != nil || g.Refusal != "" {
		b.t.Fatalf("grant: %+v, %v", g, err)
	}
	return g.Task
}

func taskID(i int) string  { return fmt.Sprintf("T%06d", i) }
func storeID(i int) string { return fmt.Sprintf("%06d", i) }

// success is a terminal's valid answer.
func success(i, attempt int, result string) store.Answer {
	return store.Answer{Event: task.Succeed, Attempt: store.Attempt{
		TaskID: taskID(i), Attempt: attempt, StoreID: storeID(i), TerminalID: "pos1",
		Answer: protocol.AnswerSucceeded, Executed: true, Result: json.RawMessage(result), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(result))),
	}}
}

// failure is a terminal's word that the attempt failed.
func failure(i, attempt int, event task.Event) store.Answer {
	a := success(i, attempt, "")
	a.Event, a.Reason, a.RetryAt = event, task.ReasonExecutionError, at(time.Minute)
	a.Attempt.Answer, a.Attempt.Result = protocol.AnswerFailed, nil
	a.Attempt.Failure = &protocol.Failure{Code: protocol.CodeExecution, Message: "exit 1"}
	a.Attempt.SHA256 = fmt.Sprintf("fail-%d", attempt)
	return a
}

// settle knows how the task stands, which must change nothing.
func (b *bundle) settle(a store.Answer, now time.Time) store.Settled {
	b.t.Helper()
	if known, err := b.GetTask(b.t.Context(), a.Attempt.TaskID); err == nil {
		a.Known = &known
	}
	settled, err := b.Settle(b.t.Context(), a, now)
	if err != nil {
		b.t.Fatal(err)
	}
	return settled
}

func TestWholeLifeOfARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.create(3)
	b.grant(0, at(time.Second))
	if ok, err := b.Sign(t.Context(), store.Sign{TaskID: taskID(0), Attempt: 1, StoreID: storeID(0), TerminalID: "pos1", LeaseUntil: at(time.Minute)}, at(2*time.Second)); err != nil || !ok {
		t.Fatal(ok, err)
	}
	got := b.settle(success(0, 1, `{"n":9007199254740993,"x":1.0}`), at(3*time.Second))
	if !got.Applied || got.Task.State != (task.State{Status: task.Succeeded, Attempt: 1, Settled: true}) {
		t.Fatalf("%+v", got)
	}
	stored, err := b.GetResult(t.Context(), taskID(0), 1)
	if err != nil || string(stored.Result) != `{"n":9007199254740993,"x":1.0}` || stored.StartedAt != at(2*time.Second) {
		t.Fatalf("%+v, %v", stored, err)
	}
	snap, err := b.CloseBarrier(t.Context(), run.RunID, at(2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	rev := store.NewRevision{RunID: "R", Revision: 1, Why: "barrier", AsOf: at(2 * time.Minute)}
	for c, err := range snap.Candidates() {
		if err != nil {
			t.Fatal(err)
		}
		rev.Rows = append(rev.Rows, store.OutcomeRow{StoreID: c.Place.StoreID, Outcome: task.OutcomeOffline, Reason: task.ReasonOfflineWholeWindow, Row: json.RawMessage(`{}`)})
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.AddRevision(t.Context(), rev, at(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	cancelled, err := b.CloseRun(t.Context(), "R", task.ReasonExpired, at(time.Hour))
	if err != nil || len(cancelled) != 2 {
		t.Fatal(cancelled, err)
	}
	var kinds []store.ChangeKind
	for _, c := range b.heard() {
		kinds = append(kinds, c.Kind)
	}
	want := []store.ChangeKind{store.RunCreated, store.TaskMoved, store.TaskMoved, store.RevisionReady, store.TaskMoved, store.TaskMoved, store.RunClosed}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("heard %v, want %v", kinds, want)
	}
}

func (b *bundle) cancel() {
	b.t.Helper()
	if _, _, err := b.Cancel(b.t.Context(), "R", nil, task.ReasonByUser, "ada", t0); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) closeRun() {
	b.t.Helper()
	if _, err := b.CloseRun(b.t.Context(), "R", task.ReasonExpired, t0); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) closeBarrier(now time.Time) {
	b.t.Helper()
	snap, err := b.CloseBarrier(b.t.Context(), "R", now)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := snap.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// raw opens the file beside the store, for what no method shows.
func (b *bundle) raw() *sql.DB {
	b.t.Helper()
	db, err := sql.Open("sqlite", "file:"+b.path+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return db
}

// rowsOf counts a table's rows.
func (b *bundle) rowsOf(table string) (n int) {
	b.t.Helper()
	if err := b.raw().QueryRowContext(b.t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func TestObserverMayWaitForAWriter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex // as a step's, held while it writes and taken when it is told
	told := make(chan struct{})
	b.Observe(func([]store.Change) {
		mu.Lock()
		defer mu.Unlock()
		close(told)
	})
	mu.Lock()
	b.create(1)
	for range 10 {
		if err := b.Beat(t.Context(), t0); err != nil {
			t.Fatal(err)
		}
	}
	mu.Unlock()
	<-told
}
