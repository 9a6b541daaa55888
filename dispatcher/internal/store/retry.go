package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/task"
)

// ErrNotMissing says that a target of a retry is no longer missing in its parent, or
// that somebody works on it.
var ErrNotMissing = errors.New("not missing any more")

// Missing is a target that a run's newest revision counts as failed, timed out or
// offline, and that may be asked again.
type Missing struct {
	StoreID string
	Outcome task.Outcome
	pending bool // the parent still offers its task
}

// missing leaves out what somebody works on: a task that runs or waits for its next
// attempt, one that was answered since that revision, and one that any run asks of those
// that are retries of each other, or of one run. What a retry, or a retry of one, got an
// answer for is on its way into the report.
const missing = `WITH RECURSIVE
	above (run_id) AS (SELECT ?1 UNION SELECT r.parent_run FROM above a JOIN runs r ON r.run_id = a.run_id WHERE r.parent_run <> ''),
	kin (run_id) AS (SELECT run_id FROM above UNION SELECT c.run_id FROM kin f JOIN runs c ON c.parent_run = f.run_id AND c.parent_run <> ''),
	below (run_id) AS (SELECT run_id FROM runs WHERE parent_run = ?1 AND parent_run <> ''
		UNION SELECT c.run_id FROM below f JOIN runs c ON c.parent_run = f.run_id AND c.parent_run <> '')
	SELECT t.store_id, o.outcome, EXISTS (SELECT 1 FROM tasks k WHERE k.run_id = t.run_id AND k.store_id = t.store_id AND k.settled_at = 0)
	FROM runs p JOIN run_targets t ON t.run_id = p.run_id
	JOIN outcomes o ON o.run_id = t.run_id AND o.store_id = t.store_id AND o.revision =
		(SELECT max(n.revision) FROM outcomes n WHERE n.run_id = t.run_id AND n.store_id = t.store_id AND n.revision <= p.revision)
	WHERE p.run_id = ?1 AND o.outcome IN ('failed', 'timed_out', 'offline')
		AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.run_id = t.run_id AND k.store_id = t.store_id
			AND (k.status IN ('RUNNING', 'SUCCEEDED') OR k.status = 'FAILED' AND k.settled_at = 0))
		AND NOT EXISTS (SELECT 1 FROM kin f CROSS JOIN tasks k ON k.run_id = f.run_id AND k.store_id = t.store_id
			WHERE f.run_id <> ?1 AND k.settled_at = 0)
		AND NOT EXISTS (SELECT 1 FROM below f CROSS JOIN tasks k ON k.run_id = f.run_id AND k.store_id = t.store_id
			WHERE k.status = 'SUCCEEDED')
	ORDER BY t.store_id`

func scanMissing(row sqlite.Row) (Missing, error) {
	var m Missing
	return m, row.Scan(&m.StoreID, &m.Outcome, &m.pending)
}

// ListMissing returns what a retry of the run would ask again, by store id; nothing
// before its first revision.
func (s *Store) ListMissing(ctx context.Context, runID string) ([]Missing, error) {
	list, err := sqlite.List(ctx, s.db.Readers(), scanMissing, missing, runID)
	if err != nil {
		return nil, fmt.Errorf("cannot list what is missing in run %s: %w", runID, err)
	}
	return list, nil
}

// takeOver checks that every target of a retry is still missing in its parent, and
// cancels the tasks that the parent still offers there: a store is to do it once. It
// fails with ErrNotMissing.
func (o *newOrder) takeOver(ctx context.Context, tx *sqlite.Tx, now time.Time, changes *[]Change) error {
	list, err := sqlite.List(ctx, tx, scanMissing, missing, o.run.ParentRun)
	if err != nil {
		return err
	}
	known := make(map[string]Missing, len(list))
	for _, m := range list {
		known[m.StoreID] = m
	}
	var pending []string
	for _, place := range o.places {
		m, ok := known[place.StoreID]
		if !ok {
			return fmt.Errorf("%w in run %s: store %s", ErrNotMissing, o.run.ParentRun, place.StoreID)
		}
		if m.pending {
			pending = append(pending, m.StoreID)
		}
	}
	if len(pending) > 0 {
		_, err = cancelOpen(ctx, tx, o.run.ParentRun, pending, task.ReasonSuperseded, now, changes)
	}
	return err
}

const selectUnmerged = `SELECT ` + runColumns + ` FROM runs WHERE parent_run <> '' AND merged < revision ORDER BY created_at, run_id`

// ListUnmerged returns the retries with a revision that is not merged into their
// parent's report, oldest first.
func (s *Store) ListUnmerged(ctx context.Context) ([]Run, error) {
	runs, err := sqlite.List(ctx, s.db.Readers(), scanRun, selectUnmerged)
	if err != nil {
		return nil, fmt.Errorf("cannot list the retries that are not merged: %w", err)
	}
	return runs, nil
}

// MarkMerged notes that a revision of a retry is merged into its parent's report.
func (s *Store) MarkMerged(ctx context.Context, runID string, revision int) error {
	_, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		return tx.Exec(`UPDATE runs SET merged = ? WHERE run_id = ? AND merged < ?`, revision, runID, revision)
	})
	if err != nil {
		return fmt.Errorf("cannot mark revision %d of run %s as merged: %w", revision, runID, err)
	}
	return nil
}

// ListUnfinished returns the runs whose report may still be revised: those that are not
// closed, those with a revision that is not published, and those that a retry of either
// kind, or one that is not merged, hands its answers up to.
func (s *Store) ListUnfinished(ctx context.Context) (map[string]bool, error) {
	unfinished := map[string]bool{}
	_, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (id string, err error) {
		err = row.Scan(&id)
		unfinished[id] = true
		return id, err
	}, `WITH RECURSIVE unfinished (run_id) AS (
		SELECT run_id FROM runs WHERE closed_at = 0
		UNION SELECT run_id FROM runs WHERE parent_run <> '' AND merged < revision
		UNION SELECT run_id FROM revisions WHERE published_at = 0
		UNION SELECT r.parent_run FROM unfinished u JOIN runs r ON r.run_id = u.run_id WHERE r.parent_run <> '')
		SELECT run_id FROM unfinished`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the runs whose reports are not finished: %w", err)
	}
	return unfinished, nil
}
