// Package ledger keeps the revisions of the roll-call: what each target was
// found to be, frozen once complete, and which files came of it.
//
// It judges nobody and renders nothing. Its methods are promoted by
// store.Store.
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

// ErrExists says that the revision is complete already.
var ErrExists = errors.New("already exists")

// OutcomeRow is one target's row in a revision. Row is the JSON of a
// protocol.StoreRow, exactly as JSON reports show it.
type OutcomeRow struct {
	StoreID string
	Outcome task.Outcome
	Reason  task.Reason
	Row     json.RawMessage
}

// NewRevision is a revision to be stored. Rows holds every target in revision
// 1, and the changed ones in later revisions.
type NewRevision struct {
	RunID    string
	Revision int
	Why      string
	AsOf     time.Time
	Rows     []OutcomeRow
}

// Revision is a stored revision. Files is empty until they are published.
type Revision struct {
	RunID       string
	Revision    int
	Why         string
	AsOf        time.Time
	PublishedAt time.Time
	Files       []protocol.ManifestFile
}

// Ledger reads and writes revisions. Safe for concurrent use.
type Ledger struct {
	db       *sqlite.DB
	seen     *Seen
	ready    func(runID string, revision int)
	revising sync.Mutex // one revision is written at a time
}

// Open drops what a process that died left unfinished. ready is called after
// the commit that completes a revision, like an observer of the store.
func Open(ctx context.Context, db *sqlite.DB, seen *Seen, logger *slog.Logger, ready func(runID string, revision int)) (*Ledger, error) {
	l := &Ledger{db: db, seen: seen, ready: ready}
	return l, l.discardIncomplete(ctx, logger)
}

// LateChanges returns how many tasks an accepted late answer settled that the
// newest complete revision did not see.
func (l *Ledger) LateChanges(ctx context.Context, runID string) (int, error) {
	n, err := sqlite.One(ctx, l.db.Readers(), func(row sqlite.Row) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT r.late_count - coalesce((SELECT v.seen FROM revisions v WHERE v.run_id = r.run_id AND v.revision = r.revision), 0)
		FROM runs r WHERE r.run_id = ?`, runID)
	if err != nil {
		return 0, fmt.Errorf("cannot count late changes of run %s: %w", runID, err)
	}
	return n, nil
}
