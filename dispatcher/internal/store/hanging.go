package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/task"
)

// Hanging says in words what hangs on headquarters' time, so that it must not
// step: a run before its first revision, an attempt that runs, a retry that is
// not due by the given moment. It returns "" when nothing does. A retry that is due
// waits for its terminal alone, perhaps for days, and ends of make-up windows are
// days away and follow the clock.
func (s *Store) Hanging(ctx context.Context, by time.Time) (string, error) {
	for _, look := range []struct {
		query string
		args  []any
		says  string
	}{
		{`SELECT run_id FROM runs WHERE closed_at = 0 AND revision = 0 LIMIT 1`, nil, "run %s is before its barrier"},
		{`SELECT task_id FROM tasks WHERE settled_at = 0 AND status = ? LIMIT 1`, []any{task.Running}, "task %s is running"},
		{`SELECT task_id FROM tasks WHERE settled_at = 0 AND next_attempt_at > ? LIMIT 1`, []any{sqlite.Millis(by)},
			"task %s waits until its next attempt is due"},
	} {
		id, err := sqlite.One(ctx, s.db.Readers(), func(row sqlite.Row) (id string, err error) {
			return id, row.Scan(&id)
		}, look.query, look.args...)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return "", fmt.Errorf("cannot tell what hangs on the time: %w", err)
		default:
			return fmt.Sprintf(look.says, id), nil
		}
	}
	return "", nil
}
