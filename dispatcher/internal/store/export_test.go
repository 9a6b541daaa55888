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
	steps, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (string, error) {
		var id, parent, unused int
		var detail string
		err := row.Scan(&id, &parent, &unused, &detail)
		return detail, err
	}, "EXPLAIN QUERY PLAN "+selectCandidates, "R")
	return strings.Join(steps, "\n"), err
}

// InUse is the number of read connections that are not given back.
func (s *Store) InUse() int { return s.db.Readers().InUse() + s.db.Streams().InUse() }
