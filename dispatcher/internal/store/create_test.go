package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestCreateRunStoresWhatItWasGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := newRun("R")
	places, tasks := targets(250)
	tasks[7].Input, tasks[7].TerminalID = []byte(`{"date":"2026-09-15","n":1.0}`), "backoffice"
	created, err := b.CreateRun(t.Context(), run, places, tasks, store.Request{User: "ada", RequestID: "q1", ContentHash: "h"}, t0)
	if err != nil || created.Duplicate || created.Conflict {
		t.Fatal(created, err)
	}
	run.Targets, run.OrderedAt = 250, run.CreatedAt
	got, err := b.GetRun(t.Context(), "R")
	if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", run) || fmt.Sprintf("%+v", created.Run) != fmt.Sprintf("%+v", run) {
		t.Errorf("run is\n%+v, want\n%+v (%v)", got, run, err)
	}
	counts, open, err := b.CountTasks(t.Context(), "R")
	if err != nil || open != 250 || counts[task.Pending] != 250 || len(counts) != 1 {
		t.Errorf("counts %v, open %d, %v", counts, open, err)
	}
	own, err := b.GetTask(t.Context(), taskID(7))
	want := store.Task{TaskID: taskID(7), RunID: "R", StoreID: storeID(7), TerminalID: "backoffice", Type: "collect_log",
		Input: tasks[7].Input, State: task.State{Status: task.Pending}, Attempts: 2,
		Deadline: run.BarrierAt, QueueDeadline: run.MakeupUntil, CreatedAt: t0}
	if err != nil || fmt.Sprintf("%+v", own) != fmt.Sprintf("%+v", want) {
		t.Errorf("task is\n%+v, want\n%+v (%v)", own, want, err)
	}
	others, err := b.GetTaskOf(t.Context(), "R", storeID(8))
	if err != nil || len(others) != 1 || string(others[0].Input) != string(run.Input) {
		t.Errorf("a task without input has %+v, %v", others, err)
	}
	changes := b.heard()
	if len(changes) != 1 || changes[0].Kind != store.RunCreated || changes[0].Run.Targets != 250 {
		t.Errorf("heard %+v", changes)
	}
}

func TestSameRequestMakesOneRun(t *testing.T) { // I8
	t.Parallel()
	b := setup(t)
	places, tasks := targets(3)
	ask := func(runID, user, hash string) store.Created {
		t.Helper()
		fresh := make([]store.NewTask, len(tasks))
		for i, task := range tasks {
			fresh[i] = task
			fresh[i].TaskID = runID + task.TaskID
		}
		created, err := b.CreateRun(t.Context(), newRun(runID), places, fresh, store.Request{User: user, RequestID: "q1", ContentHash: hash}, t0)
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	tests := []struct {
		runID, user, hash   string
		want                string
		duplicate, conflict bool
	}{
		{"R1", "ada", "h1", "R1", false, false},
		{"R2", "ada", "h1", "R1", true, false},
		{"R3", "ada", "h2", "R1", false, true},
		{"R4", "bob", "h2", "R4", false, false},
		{"R5", "ada", "h1", "R1", true, false},
	}
	for _, tt := range tests {
		got := ask(tt.runID, tt.user, tt.hash)
		if got.Run.RunID != tt.want || got.Duplicate != tt.duplicate || got.Conflict != tt.conflict {
			t.Errorf("%+v: got run %s, duplicate %t, conflict %t", tt, got.Run.RunID, got.Duplicate, got.Conflict)
		}
	}
	req, run, err := b.FindRequest(t.Context(), "ada", "q1")
	if err != nil || run.RunID != "R1" || req.ContentHash != "h1" {
		t.Errorf("found %+v, %s, %v", req, run.RunID, err)
	}
	if _, _, err := b.FindRequest(t.Context(), "ada", "q2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown request: %v", err)
	}
	runs, err := b.ListOpenRuns(t.Context())
	if err != nil || len(runs) != 2 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	if n := b.rowsOf("audit"); n != 2 {
		t.Errorf("%d audit lines for 2 runs", n)
	}
}

func TestSameRequestAtOnceMakesOneRun(t *testing.T) { // I8
	t.Parallel()
	b := setup(t)
	places, tasks := targets(1)
	var wg sync.WaitGroup
	made := make(chan store.Created, 32)
	for i := range 32 {
		wg.Go(func() {
			own := []store.NewTask{{TaskID: fmt.Sprintf("%d", i), StoreID: tasks[0].StoreID}}
			created, err := b.CreateRun(t.Context(), newRun(fmt.Sprintf("R%d", i)), places, own,
				store.Request{User: "ada", RequestID: "q", ContentHash: "h"}, t0)
			if err != nil {
				t.Error(err)
			}
			made <- created
		})
	}
	wg.Wait()
	close(made)
	first, ids := 0, map[string]bool{}
	for c := range made {
		ids[c.Run.RunID] = true
		if !c.Duplicate {
			first++
		}
	}
	if first != 1 || len(ids) != 1 {
		t.Errorf("%d created, ids %v", first, ids)
	}
}

func TestRefusedRunLeavesNothing(t *testing.T) { // I4
	t.Parallel()
	tests := []struct {
		name   string
		change func(places []store.Place, tasks []store.NewTask) ([]store.Place, []store.NewTask)
	}{
		{"last task id twice", func(p []store.Place, k []store.NewTask) ([]store.Place, []store.NewTask) {
			k[len(k)-1].TaskID = k[0].TaskID
			return p, k
		}},
		{"task for no target", func(p []store.Place, k []store.NewTask) ([]store.Place, []store.NewTask) {
			return p, append(k, store.NewTask{TaskID: "X", StoreID: "elsewhere"})
		}},
		{"target without task", func(p []store.Place, k []store.NewTask) ([]store.Place, []store.NewTask) {
			return p, k[:len(k)-1]
		}},
		{"target twice", func(p []store.Place, k []store.NewTask) ([]store.Place, []store.NewTask) {
			return append(p, p[0]), k
		}},
		{"no target", func([]store.Place, []store.NewTask) ([]store.Place, []store.NewTask) { return nil, nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			places, tasks := tt.change(targets(333))
			_, err := b.CreateRun(t.Context(), newRun("R"), places, tasks, store.Request{User: "ada", RequestID: "q", ContentHash: "h"}, t0)
			if err == nil {
				t.Fatal("it was created")
			}
			for _, table := range []string{"runs", "run_targets", "tasks", "requests", "audit"} {
				if n := b.rowsOf(table); n != 0 {
					t.Errorf("%d rows in %s", n, table)
				}
			}
			if changes := b.heard(); len(changes) != 0 {
				t.Errorf("heard %+v", changes)
			}
			b.create(3) // and the store goes on
		})
	}
}

func TestRunOfHundredThousandTasks(t *testing.T) { // I4
	if testing.Short() {
		t.Skip("it writes 100,000 tasks")
	}
	t.Parallel()
	b := setup(t)
	places, tasks := targets(100_000)
	began := time.Now()
	if _, err := b.CreateRun(t.Context(), newRun("R"), places, tasks, store.Request{}, t0); err != nil {
		t.Fatal(err)
	}
	t.Logf("100,000 tasks were created in %.2f s", time.Since(began).Seconds())
	if _, open, err := b.CountTasks(t.Context(), "R"); err != nil || open != 100_000 {
		t.Errorf("%d open, %v", open, err)
	}
	began = time.Now()
	cancelled, err := b.CloseRun(t.Context(), "R", task.ReasonExpired, at(time.Hour))
	if err != nil || len(cancelled) != 100_000 {
		t.Errorf("%d cancelled, %v", len(cancelled), err)
	}
	t.Logf("and closed in %.2f s", time.Since(began).Seconds())
}

func TestRunWithoutInputSaysNull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.create(1, func(r *store.Run) { r.Input = nil })
	k, err := b.GetTask(t.Context(), taskID(0))
	if err != nil || string(run.Input) != "null" || string(k.Input) != "null" {
		t.Errorf("run %q, task %q, %v", run.Input, k.Input, err)
	}
}

func TestTasksOfOneStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	places, _ := targets(2)
	tasks := []store.NewTask{{TaskID: "c", StoreID: storeID(0)}, {TaskID: "a", StoreID: storeID(0)}, {TaskID: "b", StoreID: storeID(1)}}
	if _, err := b.CreateRun(t.Context(), newRun("R"), places, tasks, store.Request{}, t0); err != nil {
		t.Fatal(err)
	}
	got, err := b.GetTaskOf(t.Context(), "R", storeID(0))
	if err != nil || len(got) != 2 || got[0].TaskID != "a" || got[1].TaskID != "c" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.GetTask(t.Context(), "A"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ids are compared exactly, but: %v", err)
	}
}

func TestOpenTasksAreFilteredAndStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(5)
	places, _ := targets(2)
	more := []store.NewTask{{TaskID: "M0", StoreID: storeID(0)}, {TaskID: "M1", StoreID: storeID(1)}}
	if _, err := b.CreateRun(t.Context(), newRun("R2"), places, more, store.Request{}, t0); err != nil {
		t.Fatal(err)
	}
	b.grant(0, t0)
	b.settle(success(0, 1, `{}`), t0)
	tests := []struct {
		run, store string
		want       int
	}{{"", "", 6}, {"R", "", 4}, {"R2", "", 2}, {"", storeID(0), 1}, {"", storeID(1), 2}, {"R", storeID(1), 1}, {"R", storeID(0), 0}, {"none", "", 0}}
	for _, tt := range tests {
		n := 0
		for k, err := range b.OpenTasks(t.Context(), tt.run, tt.store) {
			if err != nil || k.State.Settled {
				t.Errorf("%+v, %v", k, err)
			}
			n++
		}
		if n != tt.want {
			t.Errorf("run %q store %q: %d open, want %d", tt.run, tt.store, n, tt.want)
		}
	}
	b.grant(1, t0)
	told, err := b.ListOpen(t.Context(), storeID(1))
	if err != nil || len(told) != 2 || told[0] != (store.OpenTask{TaskID: taskID(1), StoreID: storeID(1), State: task.State{Status: task.Running, Attempt: 1}, HolderID: "pos1"}) ||
		told[1] != (store.OpenTask{TaskID: "M1", StoreID: storeID(1), State: task.State{Status: task.Pending}}) {
		t.Errorf("told %+v, %v", told, err)
	}
	if all, err := b.ListOpen(t.Context(), ""); err != nil || len(all) != 6 || all[0].StoreID != storeID(0) || all[5].StoreID != storeID(4) {
		t.Errorf("of all %+v, %v", all, err)
	}
	for k, err := range b.OpenTasks(t.Context(), "", "") { // leaving early gives the connection back
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.GetTask(t.Context(), k.TaskID); err != nil {
			t.Error(err)
		}
		if err := b.NoteClaim(t.Context(), k.TaskID, at(time.Second)); err != nil {
			t.Error(err)
		}
		break
	}
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	calls := map[string]func() error{
		"GetRun":    func() error { _, err := b.GetRun(ctx, "x"); return err },
		"GetTask":   func() error { _, err := b.GetTask(ctx, "x"); return err },
		"GetResult": func() error { _, err := b.GetResult(ctx, "x", 1); return err },
		"Cancel":    func() error { _, _, err := b.Cancel(ctx, "x", nil, task.ReasonByUser, "ada", t0); return err },
		"CloseRun":  func() error { _, err := b.CloseRun(ctx, "x", task.ReasonExpired, t0); return err },
		"Snapshot":  func() error { _, err := b.Snapshot(ctx, "x"); return err },
		"CloseBarrier": func() error {
			_, err := b.CloseBarrier(ctx, "x", t0)
			return err
		},
		"LateChanges":   func() error { _, err := b.LateChanges(ctx, "x"); return err },
		"MarkPublished": func() error { return b.MarkPublished(ctx, "x", 1, []protocol.ManifestFile{}, t0) },
		"AddRevision":   func() error { return b.AddRevision(ctx, store.NewRevision{RunID: "x", Revision: 1}, t0) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of an unknown run: %v", name, err)
		}
	}
}
