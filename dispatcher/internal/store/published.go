package store

import (
	"context"
	"iter"

	"muster/dispatcher/internal/store/internal/ledger"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// revisionsVersion is since when the database keeps revisions and their files.
const revisionsVersion = 1

// ReadRevision calls read with a complete revision of a run and its rows by store
// id, which are read while its loop runs. It opens the file like VerifyAudit. It
// fails with ErrNotFound when the database has no such revision, and with what read
// fails with.
func ReadRevision(ctx context.Context, databasePath, runID string, revision int, read func(Revision, iter.Seq2[OutcomeRow, error]) error) error {
	return sqlite.Look(ctx, databasePath, applicationID, revisionsVersion, func(q sqlite.Querier) error {
		return ledger.Read(ctx, q, runID, revision, read)
	})
}
