package barrier

import (
	"context"
	"time"

	"muster/dispatcher/internal/store"
)

// Pinned lets the store serve as Snapshots.
func Pinned(s *store.Store) Snapshots { return pinned{s} }

type pinned struct{ store *store.Store }

// CloseBarrier is the store's.
func (p pinned) CloseBarrier(ctx context.Context, runID string, now time.Time) (Snapshot, error) {
	snap, err := p.store.CloseBarrier(ctx, runID, now)
	if err != nil {
		return nil, err // a nil *store.Snapshot is no nil Snapshot
	}
	return snap, nil
}

// Snapshot is the store's.
func (p pinned) Snapshot(ctx context.Context, runID string) (Snapshot, error) {
	snap, err := p.store.Snapshot(ctx, runID)
	if err != nil {
		return nil, err
	}
	return snap, nil
}
