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

// superseded is the condition that a task k of a run r is done no more, because
// its store has one of a newer run of the same job: the policy of r keeps the
// newest only, its first revision is made, and nobody works on the task or has
// worked on it without being heard, as an attempt whose lease ended may have. A
// newer task that was cancelled takes no place, and neither does a retry of what was
// ordered before.
const superseded = ` k.settled_at = 0 AND (k.status = 'PENDING' OR k.status = 'FAILED' AND k.last_code <> '` + string(protocol.CodeLeaseExpired) + `')
	AND r.closed_at = 0 AND r.revision > 0 AND json_extract(r.policy, '$.backlog') = 'newest'
	AND EXISTS (SELECT 1 FROM runs m CROSS JOIN tasks n ON n.run_id = m.run_id AND n.store_id = k.store_id
		WHERE m.job = r.job AND m.parent_run = '' AND m.created_at >= r.created_at AND (m.created_at, m.run_id) > (r.created_at, r.run_id)
			AND n.terminal_id = k.terminal_id AND n.status <> 'CANCELLED')`

// Supersede cancels tasks of the job that a newer run of it took the place of, at
// most so many, and tells observers each move. It returns how many; fewer than
// most means that there are no more.
func (s *Store) Supersede(ctx context.Context, job string, most int, now time.Time) (int, error) {
	ids, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	}, `SELECT k.task_id FROM runs r CROSS JOIN tasks k ON k.run_id = r.run_id WHERE r.closed_at = 0 AND r.job = ? AND`+superseded+` LIMIT ?`, job, most)
	if err != nil {
		return 0, fmt.Errorf("cannot list what is superseded of job %s: %w", job, err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	_, err = write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (int, error) {
		for _, id := range ids {
			t, err := sqlite.One(ctx, tx, scanTask, selectTask, id)
			if err == nil {
				_, err = supersede(ctx, tx, &t, now, changes)
			}
			if err != nil {
				return 0, err
			}
		}
		return len(ids), nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot supersede tasks of job %s: %w", job, err)
	}
	return len(ids), nil
}

// supersede cancels a task whose place a newer run took, and returns false for
// any other.
func supersede(ctx context.Context, tx *sqlite.Tx, t *Task, now time.Time, changes *[]Change) (bool, error) {
	_, err := sqlite.One(ctx, tx, func(row sqlite.Row) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT 1 FROM tasks k JOIN runs r ON r.run_id = k.run_id WHERE k.task_id = ? AND`+superseded, t.TaskID)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot tell whether task %s is superseded: %w", t.TaskID, err)
	}
	from := t.State
	ok, err := move(tx, t, task.Cancel, now, func(after *Task) { after.Reason = task.ReasonSuperseded })
	if ok {
		*changes = append(*changes, moved(*t, from, task.Cancel, nil, false))
	}
	return ok, err
}
