package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
)

// chunkRows is how many outcome rows one commit takes, so that answers that
// come in meanwhile wait for milliseconds.
const chunkRows = 2000

// AddRevision stores a revision in chunks between which other writes proceed;
// it counts, and observers hear RevisionReady, only once all of it is there.
// What an earlier unfinished try left is replaced. It fails with ErrExists
// when the revision is complete already, and otherwise when it is not the next
// one or revision 1 does not hold every target.
func (l *Ledger) AddRevision(ctx context.Context, rev NewRevision, now time.Time) error {
	l.revising.Lock()
	defer l.revising.Unlock()
	if err := l.addRevision(ctx, rev, now); err != nil {
		return fmt.Errorf("cannot add revision %d of run %s: %w", rev.Revision, rev.RunID, err)
	}
	return nil
}

func (l *Ledger) addRevision(ctx context.Context, rev NewRevision, now time.Time) error {
	if rev.AsOf.IsZero() {
		rev.AsOf = now
	}
	seen := l.seen.fewestOf(rev.RunID)
	err := l.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error { return beginRevision(ctx, tx, rev, seen) }})
	if err != nil {
		return err
	}
	for rest := rev.Rows; len(rest) > 0; {
		chunk := rest[:min(len(rest), chunkRows)]
		rest = rest[len(chunk):]
		err := l.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error { return insertOutcomes(tx, rev, chunk) }})
		if err != nil {
			return err
		}
	}
	err = l.db.Write(ctx, sqlite.Op{
		Run:       func(tx *sqlite.Tx) error { return completeRevision(ctx, tx, rev) },
		Committed: func() { l.ready(rev.RunID, rev.Revision) },
	})
	if err == nil {
		l.seen.Forget(rev.RunID)
	}
	return err
}

// beginRevision makes room and marks the revision as begun. Without a
// snapshot (seen < 0) it claims to have seen what the one before it saw.
func beginRevision(ctx context.Context, tx *sqlite.Tx, rev NewRevision, seen int64) error {
	var newest int
	_, err := sqlite.One(ctx, tx, func(row sqlite.Row) (closed bool, err error) {
		if err = row.Scan(&newest, &closed); err == nil && !closed {
			err = errors.New("the barrier is open")
		}
		return closed, err
	}, `SELECT revision, barrier_closed_at <> 0 FROM runs WHERE run_id = ?`, rev.RunID)
	switch {
	case err != nil:
		return err
	case rev.Revision <= newest:
		return ErrExists
	case rev.Revision != newest+1:
		return fmt.Errorf("revision %d is next", newest+1)
	}
	if err := discardRevision(tx, rev.RunID, rev.Revision); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO revisions (run_id, revision, why, as_of, seen) VALUES (?, ?, ?, ?,
			CASE WHEN ? >= 0 THEN ? ELSE coalesce((SELECT seen FROM revisions WHERE run_id = ? AND revision = ?), 0) END)`,
		rev.RunID, rev.Revision, rev.Why, sqlite.Millis(rev.AsOf), seen, seen, rev.RunID, newest)
	return err
}

func insertOutcomes(tx *sqlite.Tx, rev NewRevision, rows []OutcomeRow) error {
	return tx.Insert(`INSERT INTO outcomes (run_id, store_id, revision, outcome, reason, row)`, sqlite.Placeholders(6), len(rows),
		func(i int) []any {
			r := rows[i]
			return []any{rev.RunID, r.StoreID, rev.Revision, r.Outcome, r.Reason, string(r.Row)}
		})
}

func completeRevision(ctx context.Context, tx *sqlite.Tx, rev NewRevision) error {
	missing, err := sqlite.One(ctx, tx, func(row sqlite.Row) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT r.targets - (SELECT count(*) FROM outcomes o WHERE o.run_id = r.run_id AND o.revision = 1) FROM runs r WHERE r.run_id = ?`, rev.RunID)
	if err != nil {
		return err
	}
	if missing != 0 {
		return fmt.Errorf("%d targets have no row in revision 1", missing)
	}
	if _, err := tx.Exec(`UPDATE revisions SET complete = 1 WHERE run_id = ? AND revision = ?`, rev.RunID, rev.Revision); err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE runs SET revision = ? WHERE run_id = ?`, rev.Revision, rev.RunID)
	return err
}

func discardRevision(tx *sqlite.Tx, runID string, revision int) error {
	if _, err := tx.Exec(`DELETE FROM outcomes WHERE run_id = ? AND revision = ?`, runID, revision); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM revisions WHERE run_id = ? AND revision = ? AND complete = 0`, runID, revision)
	return err
}

// discardIncomplete drops what a process that died left unfinished.
func (l *Ledger) discardIncomplete(ctx context.Context, logger *slog.Logger) error {
	err := l.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error {
		begun, err := sqlite.List(ctx, tx, scanRevision, `SELECT `+revisionColumns+` FROM revisions WHERE complete = 0`)
		for _, rev := range begun {
			if err := discardRevision(tx, rev.RunID, rev.Revision); err != nil {
				return err
			}
			logger.Info("dropped an unfinished revision", "run_id", rev.RunID, "revision", rev.Revision)
		}
		return err
	}})
	if err != nil {
		return fmt.Errorf("cannot drop unfinished revisions: %w", err)
	}
	return nil
}

// LoadRows yields each target's newest row up to the revision, by store id. It
// reads while the loop runs.
func (l *Ledger) LoadRows(ctx context.Context, runID string, revision int) iter.Seq2[OutcomeRow, error] {
	return rowsOf(ctx, l.db.Streams(), runID, revision)
}

func rowsOf(ctx context.Context, q sqlite.Querier, runID string, revision int) iter.Seq2[OutcomeRow, error] {
	return sqlite.Stream(ctx, q, func(row sqlite.Row) (OutcomeRow, error) {
		var r OutcomeRow
		err := row.Scan(&r.StoreID, &r.Outcome, &r.Reason, sqlite.Raw{Into: &r.Row})
		return r, err
	}, `SELECT o.store_id, o.outcome, o.reason, o.row`+outcomesAt, revision, runID)
}

// Read calls read with a complete revision and its rows by store id, which are read
// while its loop runs. It fails with sqlite.ErrNotFound when there is none.
func Read(ctx context.Context, q sqlite.Querier, runID string, revision int, read func(Revision, iter.Seq2[OutcomeRow, error]) error) error {
	rev, err := sqlite.One(ctx, q, scanRevision,
		`SELECT `+revisionColumns+` FROM revisions WHERE run_id = ? AND revision = ? AND complete = 1`, runID, revision)
	if err != nil {
		return fmt.Errorf("cannot read revision %d of run %s: %w", revision, runID, err)
	}
	return read(rev, rowsOf(ctx, q, runID, revision))
}

// LoadBefore returns the newest revision, as of then at the latest, of the job's run
// before this one, with each target's outcome by store id; their rows are left out. It
// fails with sqlite.ErrNotFound when there is none.
func (l *Ledger) LoadBefore(ctx context.Context, runID string, asOf time.Time) (Revision, []OutcomeRow, error) {
	rev, err := sqlite.One(ctx, l.db.Readers(), scanRevision, `SELECT v.run_id, v.revision, v.why, v.as_of, v.published_at, v.files FROM runs r
		JOIN runs p ON p.job = r.job AND p.created_at < r.created_at
		JOIN revisions v ON v.run_id = p.run_id AND v.complete = 1 AND v.as_of <= ?
		WHERE r.run_id = ? ORDER BY p.created_at DESC, p.run_id DESC, v.revision DESC LIMIT 1`, sqlite.Millis(asOf), runID)
	if err != nil {
		return rev, nil, fmt.Errorf("cannot find the run before %s: %w", runID, err)
	}
	rows, err := sqlite.List(ctx, l.db.Readers(), func(row sqlite.Row) (OutcomeRow, error) {
		var r OutcomeRow
		err := row.Scan(&r.StoreID, &r.Outcome, &r.Reason)
		return r, err
	}, `SELECT o.store_id, o.outcome, o.reason`+outcomesAt, rev.Revision, rev.RunID)
	if err != nil {
		return rev, nil, fmt.Errorf("cannot read the outcomes of run %s: %w", rev.RunID, err)
	}
	return rev, rows, nil
}

// outcomesAt are each target's newest outcome up to a revision of a run, by store id.
const outcomesAt = ` FROM run_targets t
		JOIN outcomes o ON o.run_id = t.run_id AND o.store_id = t.store_id AND o.revision =
			(SELECT max(n.revision) FROM outcomes n JOIN revisions v ON v.run_id = n.run_id AND v.revision = n.revision
				WHERE n.run_id = t.run_id AND n.store_id = t.store_id AND n.revision <= ? AND v.complete = 1)
		WHERE t.run_id = ? ORDER BY t.store_id`

const revisionColumns = `run_id, revision, why, as_of, published_at, files`

func scanRevision(row sqlite.Row) (Revision, error) {
	var r Revision
	err := row.Scan(&r.RunID, &r.Revision, &r.Why, sqlite.Moment{Into: &r.AsOf}, sqlite.Moment{Into: &r.PublishedAt}, sqlite.Document{Content: &r.Files})
	return r, err
}

// ListRevisions returns the run's complete revisions, oldest first.
func (l *Ledger) ListRevisions(ctx context.Context, runID string) ([]Revision, error) {
	revisions, err := sqlite.List(ctx, l.db.Readers(), scanRevision,
		`SELECT `+revisionColumns+` FROM revisions WHERE run_id = ? AND complete = 1 ORDER BY revision`, runID)
	if err != nil {
		return nil, fmt.Errorf("cannot list revisions of run %s: %w", runID, err)
	}
	return revisions, nil
}

// UnpublishedRevisions returns the complete revisions of all runs whose files
// are not published, in order.
func (l *Ledger) UnpublishedRevisions(ctx context.Context) ([]Revision, error) {
	revisions, err := sqlite.List(ctx, l.db.Readers(), scanRevision,
		`SELECT `+revisionColumns+` FROM revisions WHERE complete = 1 AND published_at = 0 ORDER BY run_id, revision`)
	if err != nil {
		return nil, fmt.Errorf("cannot list unpublished revisions: %w", err)
	}
	return revisions, nil
}

// MarkPublished stores which files the revision became. A published revision
// keeps its first files. It fails with ErrNotFound when the revision is not
// complete.
func (l *Ledger) MarkPublished(ctx context.Context, runID string, revision int, files []protocol.ManifestFile, now time.Time) error {
	err := l.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error {
		_, err := sqlite.One(ctx, tx, scanRevision,
			`SELECT `+revisionColumns+` FROM revisions WHERE run_id = ? AND revision = ? AND complete = 1`, runID, revision)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE revisions SET published_at = ?, files = ? WHERE run_id = ? AND revision = ? AND published_at = 0`,
			sqlite.Millis(now), sqlite.Document{Content: files}, runID, revision)
		return err
	}})
	if err != nil {
		return fmt.Errorf("cannot mark revision %d of run %s published: %w", revision, runID, err)
	}
	return nil
}
