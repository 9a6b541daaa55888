package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// Execution records are never deleted, so their rowids stand in the order of the
// grants, whatever the clock did meanwhile.
const (
	recentGrants      = `SELECT a.granted_at FROM attempts a ORDER BY a.rowid DESC LIMIT ?`
	recentGrantsOfRun = `SELECT a.granted_at FROM tasks k JOIN attempts a ON a.task_id = k.task_id WHERE k.run_id = ? ORDER BY a.rowid DESC LIMIT ?`
)

// RecentGrants returns when the newest grants of the run were made, of all runs
// for "", the oldest first and at most so many.
func (s *Store) RecentGrants(ctx context.Context, runID string, most int) ([]time.Time, error) {
	query, args := recentGrants, []any{most}
	if runID != "" {
		query, args = recentGrantsOfRun, []any{runID, most}
	}
	grants, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (at time.Time, err error) {
		err = row.Scan(sqlite.Moment{Into: &at})
		return at, err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot list recent grants: %w", err)
	}
	slices.Reverse(grants)
	return grants, nil
}
