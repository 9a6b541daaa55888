package store

import (
	"context"
	"strings"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// Told waits until observers were told of everything committed before.
func (s *Store) Told(ctx context.Context) error {
	told := make(chan struct{})
	err := s.db.Write(ctx, sqlite.Op{Run: func(*sqlite.Tx) error { return nil }, Committed: func() { close(told) }})
	if err == nil {
		<-told
	}
	return err
}

// CandidatesPlan is how SQLite reads a snapshot's candidates.
func (s *Store) CandidatesPlan(ctx context.Context) (string, error) {
	return s.plan(ctx, selectCandidates)
}

// MissingPlan is how SQLite finds what a run misses.
func (s *Store) MissingPlan(ctx context.Context) (string, error) { return s.plan(ctx, missing) }

// UnmergedPlan is how SQLite finds the retries that are not merged.
func (s *Store) UnmergedPlan(ctx context.Context) (string, error) { return s.plan(ctx, selectUnmerged) }

func (s *Store) plan(ctx context.Context, query string) (string, error) {
	args := make([]any, min(1, strings.Count(query, "?")))
	for i := range args {
		args[i] = "R"
	}
	steps, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (string, error) {
		var id, parent, unused int
		var detail string
		err := row.Scan(&id, &parent, &unused, &detail)
		return detail, err
	}, "EXPLAIN QUERY PLAN "+query, args...)
	return strings.Join(steps, "\n"), err
}

// InUse is the number of read connections that are not given back.
func (s *Store) InUse() int { return s.db.Readers().InUse() + s.db.Streams().InUse() }
