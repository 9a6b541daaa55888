package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// errAllPublished: only what is not published yet can have another number.
var errAllPublished = errors.New("every revision is published")

// Reissue gives what the run's newest revision says a number of its own, above
// highest and above every number that the run has, and returns it. It is for a
// restored database whose numbers were used before by one that is gone, in files
// that stay. The new revision has the rows, the reason and the moment of the newest.
// All numbers below it count as published; those that were not so far have no files
// here, by which they are known.
//
// It is told as RevisionReady. It fails when the run has nothing unpublished, or
// while another revision of it is being stored; the latter may be tried again.
func (s *Store) Reissue(ctx context.Context, runID string, highest int, now time.Time) (int, error) {
	revision, err := write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (int, error) {
		next, err := reissue(ctx, tx, runID, highest, now)
		if err == nil {
			*changes = append(*changes, Change{Kind: RevisionReady, RunID: runID, Revision: next})
		}
		return next, err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot reissue the newest revision of run %s: %w", runID, err)
	}
	return revision, nil
}

func reissue(ctx context.Context, tx *sqlite.Tx, runID string, highest int, now time.Time) (int, error) {
	var begun int
	newest, err := sqlite.One(ctx, tx, func(row sqlite.Row) (n int, err error) {
		err = row.Scan(&n, &begun)
		return n, err
	}, `SELECT revision, (SELECT count(*) FROM revisions v WHERE v.run_id = r.run_id AND v.complete = 0) FROM runs r WHERE r.run_id = ?`, runID)
	if err != nil {
		return 0, err
	}
	if begun > 0 { // its number was counted from the newest
		return 0, errors.New("another revision is being stored")
	}
	moment := sqlite.Millis(now)
	passed, err := tx.Exec(`UPDATE revisions SET published_at = ? WHERE run_id = ? AND published_at = 0`, moment, runID)
	if err != nil {
		return 0, err
	}
	if passed == 0 {
		return 0, errAllPublished
	}
	next := max(newest, highest) + 1
	_, err = tx.Exec(`WITH RECURSIVE numbers (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO revisions (run_id, revision, why, as_of, seen, complete, published_at)
		SELECT v.run_id, n, v.why, v.as_of, v.seen, 1, CASE n WHEN ? THEN 0 ELSE ? END
		FROM numbers JOIN revisions v ON v.run_id = ? AND v.revision = ?`, newest+1, next, next, moment, runID, newest)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(`UPDATE runs SET revision = ? WHERE run_id = ?`, next, runID)
	return next, err
}
