package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

const moveTask = `UPDATE tasks SET status = ?, attempt = ?, settled_at = ?, holder_id = ?, holder_instance = ?, last_code = ?, reason = ?,
		next_attempt_at = ?, claimed_at = ?
	WHERE task_id = ? AND status = ? AND attempt = ? AND settled_at = 0`

// move takes the task from where it stands along the event with one guarded
// UPDATE. set changes the other fields of the record before they are stored.
// moved is false, and the task unchanged, when the moves table has no such
// move or the guard did not hold.
func move(tx *sqlite.Tx, t *Task, event task.Event, now time.Time, set func(*Task)) (moved bool, err error) {
	return moveIf(tx, t, event, now, set, moveTask)
}

// moveIf is move with a statement that is moveTask and further conditions, whose
// arguments are more.
func moveIf(tx *sqlite.Tx, t *Task, event task.Event, now time.Time, set func(*Task), statement string, more ...any) (moved bool, err error) {
	next, err := t.State.Next(event)
	var illegal *task.MoveError
	if errors.As(err, &illegal) {
		return false, nil
	}
	after, from := *t, t.State
	if event == task.Grant {
		next.Attempt = max(from.Attempt, t.Floor) + 1
	}
	after.State, after.NextAttemptAt = next, time.Time{}
	if next.Settled {
		after.SettledAt = now
	}
	set(&after)
	n, err := tx.Exec(statement, append([]any{next.Status, next.Attempt, sqlite.Millis(after.SettledAt), after.HolderID, after.Instance,
		after.LastCode, after.Reason, sqlite.Millis(after.NextAttemptAt), sqlite.Millis(after.ClaimedAt), t.TaskID, from.Status, from.Attempt}, more...)...)
	if err != nil {
		return false, fmt.Errorf("cannot %s task %s: %w", event, t.TaskID, err)
	}
	if n == 0 {
		return false, nil
	}
	// As a later read would return them.
	after.SettledAt, after.NextAttemptAt, after.ClaimedAt = sqlite.Stored(after.SettledAt), sqlite.Stored(after.NextAttemptAt), sqlite.Stored(after.ClaimedAt)
	*t = after
	return true, nil
}

// endAttempt marks that the task left RUNNING. code is empty on success.
func endAttempt(tx *sqlite.Tx, t Task, code protocol.Code, now time.Time) error {
	_, err := tx.Exec(`UPDATE attempts SET ended_at = ?, code = ? WHERE task_id = ? AND attempt = ? AND ended_at = 0`,
		sqlite.Millis(now), code, t.TaskID, t.State.Attempt)
	if err != nil {
		return fmt.Errorf("cannot end attempt %d of task %s: %w", t.State.Attempt, t.TaskID, err)
	}
	return nil
}

func moved(t Task, from task.State, event task.Event, ended *Attempt, late bool) Change {
	return Change{Kind: TaskMoved, RunID: t.RunID, Task: &t, From: from, Event: event, Attempt: ended, Late: late}
}

func attemptOf(ctx context.Context, q sqlite.Querier, taskID string, attempt int) (Attempt, error) {
	return sqlite.One(ctx, q, scanAttempt, `SELECT `+attemptColumns+` FROM attempts a WHERE a.task_id = ? AND a.attempt = ?`, taskID, attempt)
}

// Grant starts the next attempt if Grant's conditions hold, and tells
// observers. A task whose place a newer run took is cancelled instead. A refusal is an answer, not an error.
func (s *Store) Grant(ctx context.Context, g Grant, now time.Time) (Granted, error) {
	known := g.Known
	granted, err := write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (Granted, error) {
		if known != nil {
			t := *known
			known = nil // should this run again, something is not as it seems
			if ok, err := grantKnown(tx, &t, g, now, changes); ok || err != nil {
				return Granted{Task: t}, err
			}
		}
		r, err := sqlite.One(ctx, tx, scanReported, selectReported, g.TaskID)
		if errors.Is(err, ErrNotFound) {
			return Granted{Refusal: protocol.CodeNotFound}, nil
		}
		t := r.task
		if err != nil {
			return Granted{}, err
		}
		if refusal := refuseGrant(t, g, now); refusal != "" {
			return Granted{Task: t, Refusal: refusal}, nil
		}
		if r.reported {
			if over, err := supersede(ctx, tx, &t, now, changes); over || err != nil {
				return Granted{Task: t, Refusal: protocol.CodeSettled}, err
			}
		}
		from := t.State
		if err := skipNumbers(tx, &t); err != nil {
			return Granted{}, err
		}
		ok, err := move(tx, &t, task.Grant, now, g.hold(now))
		if err != nil || !ok {
			return Granted{Task: t, Refusal: protocol.CodeTaken}, err
		}
		return Granted{Task: t}, beginAttempt(tx, t, from, g, now, changes)
	})
	if err != nil {
		return Granted{}, fmt.Errorf("cannot grant task %s to terminal %s of store %s: %w", g.TaskID, g.TerminalID, g.StoreID, err)
	}
	return granted, nil
}

// hold sets what a granted task has of its holder.
func (g Grant) hold(now time.Time) func(*Task) {
	return func(after *Task) {
		after.HolderID, after.Instance, after.Reason = g.TerminalID, g.Instance, task.ReasonNone
		if after.ClaimedAt.IsZero() {
			after.ClaimedAt = now
		}
	}
}

func beginAttempt(tx *sqlite.Tx, t Task, from task.State, g Grant, now time.Time, changes *[]Change) error {
	_, err := tx.Exec(`INSERT INTO attempts (task_id, attempt, store_id, terminal_id, granted_at, lease_until) VALUES (?, ?, ?, ?, ?, ?)`,
		t.TaskID, t.State.Attempt, t.StoreID, g.TerminalID, sqlite.Millis(now), sqlite.Millis(g.LeaseUntil))
	*changes = append(*changes, moved(t, from, task.Grant, nil, false))
	return err
}

// reported is a task, and whether its run has a revision: only then may a newer run
// take its place.
type reported struct {
	task     Task
	reported bool
}

const selectReported = `SELECT ` + taskColumns + `, r.revision > 0 ""` + taskTables + ` WHERE k.task_id = ?`

func scanReported(row sqlite.Row) (reported, error) {
	var r reported
	err := row.Scan(append(r.task.dest(), &r.reported)...)
	return r, err
}

// skipNumbers leaves out the numbers of attempts that a replaced database may
// have granted, and keeps what is left of the task's attempts.
func skipNumbers(tx *sqlite.Tx, t *Task) error {
	left := t.Floor - t.State.Attempt
	if left <= 0 {
		return nil
	}
	_, err := tx.Exec(`UPDATE tasks SET skipped = skipped + ?, attempts = attempts + ? WHERE task_id = ?`, left, left, t.TaskID)
	if err != nil {
		return fmt.Errorf("cannot skip %d numbers of attempts of task %s: %w", left, t.TaskID, err)
	}
	t.Skipped, t.Attempts = t.Skipped+left, t.Attempts+left
	return nil
}

func refuseGrant(t Task, g Grant, now time.Time) protocol.Code {
	switch {
	case t.StoreID != g.StoreID, t.TerminalID != "" && t.TerminalID != g.TerminalID:
		return protocol.CodeNotFound
	case t.State.Settled, t.State.Status != task.Running && t.State.Attempt >= t.Attempts:
		return protocol.CodeSettled
	case t.State.Status != task.Running && !t.QueueDeadline.IsZero() && sqlite.Millis(t.QueueDeadline) <= sqlite.Millis(now):
		return protocol.CodeSettled
	case t.State.Status == task.Running:
		return protocol.CodeTaken
	case sqlite.Millis(t.NextAttemptAt) > sqlite.Millis(now):
		return protocol.CodeNotYet
	}
	return ""
}

// Sign renews the lease of a running attempt, never shortens it, and marks the
// start if it is the first. It returns false when the attempt is not running,
// was answered, or is not this terminal's.
func (s *Store) Sign(ctx context.Context, sign Sign, now time.Time) (bool, error) {
	n, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		at, ready := sqlite.Millis(now), sign.ReadyBytes > 0
		return tx.Exec(`UPDATE attempts SET last_sign_at = max(last_sign_at, ?), lease_until = max(lease_until, ?),
				started_at = CASE WHEN started_at = 0 THEN ? ELSE started_at END,
				ready_at = CASE WHEN ? AND ready_at = 0 THEN ? ELSE ready_at END,
				bytes = CASE WHEN ? THEN ? ELSE bytes END,
				sha256 = CASE WHEN ? THEN ? ELSE sha256 END
			WHERE task_id = ? AND attempt = ? AND store_id = ? AND terminal_id = ? AND ended_at = 0 AND received_at = 0`,
			at, sqlite.Millis(sign.LeaseUntil), at, ready, at, ready, sign.ReadyBytes, ready, sign.SHA256,
			sign.TaskID, sign.Attempt, sign.StoreID, sign.TerminalID)
	})
	if err != nil {
		return false, fmt.Errorf("cannot renew attempt %d of task %s: %w", sign.Attempt, sign.TaskID, err)
	}
	return n > 0, nil
}

// ExtendLeases gives every running attempt at least until the given time, so
// that headquarters' own absence ends nobody's lease.
func (s *Store) ExtendLeases(ctx context.Context, until, now time.Time) error {
	_, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		return tx.Exec(`UPDATE attempts SET lease_until = max(lease_until, ?)
			WHERE ended_at = 0 AND granted_at <= ? AND (task_id, attempt) IN
				(SELECT task_id, attempt FROM tasks WHERE settled_at = 0 AND status = 'RUNNING')`, sqlite.Millis(until), sqlite.Millis(now))
	})
	if err != nil {
		return fmt.Errorf("cannot extend leases: %w", err)
	}
	return nil
}
