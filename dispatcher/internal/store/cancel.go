package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

type cancellation struct {
	tasks   []Task
	settled int
}

// Cancel withdraws the open tasks of the run, of the given stores only if any
// are named, and tells observers each move. It returns them as they stand now,
// and how many were over before. An unknown run is ErrNotFound.
func (s *Store) Cancel(ctx context.Context, runID string, stores []string, reason task.Reason, by string, now time.Time) (cancelled []Task, alreadySettled int, err error) {
	done, err := write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (cancellation, error) {
		if _, err := sqlite.One(ctx, tx, scanRun, selectRun, runID); err != nil {
			return cancellation{}, err
		}
		all, err := countTasks(ctx, tx, runID, stores)
		if err != nil {
			return cancellation{}, err
		}
		tasks, err := cancelOpen(ctx, tx, runID, stores, reason, now, changes)
		if err != nil {
			return cancellation{}, err
		}
		what := "all stores"
		if len(stores) > 0 {
			what = audit.Many(len(stores), "store")
		}
		detail := fmt.Sprintf("%s, reason %s: %s cancelled, %d settled before", what, reason, audit.Many(len(tasks), "task"), all-len(tasks))
		return cancellation{tasks, all - len(tasks)}, audit.Append(ctx, tx,
			audit.Entry{At: now, Actor: by, Action: "run_cancelled", Subject: runID, Detail: detail})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("cannot cancel run %s: %w", runID, err)
	}
	return done.tasks, done.settled, nil
}

// CloseRun cancels what is open with the given reason, marks the run closed
// and tells observers each move and then RunClosed. Closing again does nothing.
func (s *Store) CloseRun(ctx context.Context, runID string, reason task.Reason, now time.Time) (cancelled []Task, err error) {
	cancelled, err = write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) ([]Task, error) {
		run, err := sqlite.One(ctx, tx, scanRun, selectRun, runID)
		if err != nil || !run.ClosedAt.IsZero() {
			return nil, err
		}
		tasks, err := cancelOpen(ctx, tx, runID, nil, reason, now, changes)
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(`UPDATE runs SET closed_at = ? WHERE run_id = ? AND closed_at = 0`, sqlite.Millis(now), runID); err != nil {
			return nil, err
		}
		run.ClosedAt = sqlite.Stored(now)
		*changes = append(*changes, Change{Kind: RunClosed, RunID: runID, Run: &run})
		return tasks, nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot close run %s: %w", runID, err)
	}
	s.seen.Forget(runID)
	return cancelled, nil
}

// selected is the condition that a task is one of the named stores', bound to
// storeFilter; no names mean all.
const selected = ` AND (? IS NULL OR store_id IN (SELECT value FROM json_each(?)))`

func storeFilter(stores []string) (any, error) {
	if len(stores) == 0 {
		return nil, nil //nolint:nilnil // SQL's NULL stands for "all"
	}
	names, err := json.Marshal(stores)
	return string(names), err
}

func countTasks(ctx context.Context, tx *sqlite.Tx, runID string, stores []string) (int, error) {
	names, err := storeFilter(stores)
	if err != nil {
		return 0, err
	}
	return sqlite.One(ctx, tx, func(row sqlite.Row) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT count(*) FROM tasks WHERE run_id = ?`+selected, runID, names, names)
}

// cancelOpen reads what is open and moves all of it in one UPDATE, guarded like
// single moves: by the settled mark, by the trigger, and by the count.
func cancelOpen(ctx context.Context, tx *sqlite.Tx, runID string, stores []string, reason task.Reason, now time.Time, changes *[]Change) ([]Task, error) {
	names, err := storeFilter(stores)
	if err != nil {
		return nil, err
	}
	tasks, err := sqlite.List(ctx, tx, scanTask, `SELECT `+taskColumns+taskTables+
		` WHERE k.run_id = ? AND k.settled_at = 0`+selected+` ORDER BY k.store_id, k.task_id`, runID, names, names)
	if err != nil {
		return nil, err
	}
	n, err := tx.Exec(`UPDATE tasks SET status = 'CANCELLED', settled_at = ?, reason = ?, next_attempt_at = 0
		WHERE run_id = ? AND settled_at = 0`+selected, sqlite.Millis(now), reason, runID, names, names)
	if err != nil {
		return nil, err
	}
	if n != int64(len(tasks)) {
		return nil, fmt.Errorf("cannot cancel: %d tasks were open and %d moved", len(tasks), n)
	}
	for i := range tasks {
		t := &tasks[i]
		from := t.State
		next, err := from.Next(task.Cancel)
		if err != nil {
			return nil, err
		}
		t.State, t.SettledAt, t.Reason, t.NextAttemptAt = next, sqlite.Stored(now), reason, time.Time{}
		ended, err := stopAttempt(ctx, tx, *t, from, now)
		if err != nil {
			return nil, err
		}
		*changes = append(*changes, moved(*t, from, task.Cancel, ended, false))
	}
	return tasks, nil
}

// stopAttempt ends the attempt that a cancelled task was running, if any.
func stopAttempt(ctx context.Context, tx *sqlite.Tx, t Task, from task.State, now time.Time) (*Attempt, error) {
	if from.Status != task.Running {
		return nil, nil //nolint:nilnil // no attempt is what Change says with nil
	}
	if err := endAttempt(tx, t, protocol.CodeCancelled, now); err != nil {
		return nil, err
	}
	a, err := attemptOf(ctx, tx, t.TaskID, t.State.Attempt)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("task %s runs without attempt %d", t.TaskID, t.State.Attempt)
	}
	return &a, err
}
