package barrier

import (
	"context"
	"fmt"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// stateWork prepares one action on a run. It runs in the loop; the work that it
// returns does not, so it takes with it what it needs of the run.
func (b *Barrier) stateWork(ctx context.Context, r *run, what action) func() (func(), error) {
	id := r.id
	switch what {
	case count:
		r.moves = 0
		return func() (func(), error) { return b.recount(ctx, r, id) }
	case judge:
		return func() (func(), error) {
			revision, err := b.closeBarrier(ctx, id)
			return func() { r.has(revision) }, err
		}
	case revise:
		seen := r.lateSeen
		return func() (func(), error) {
			revision, err := b.revise(ctx, id)
			return func() { r.has(revision); r.revised(seen) }, err
		}
	case end:
		return func() (func(), error) {
			revision, err := b.end(ctx, id)
			return func() { r.has(revision); r.closed = true }, err
		}
	case merge:
		retry := r.retries[0]
		return func() (func(), error) {
			revision, err := b.merge(ctx, id, retry)
			return func() { r.has(revision); r.retries = r.retries[1:] }, err
		}
	case hand:
		parent, revision := r.parent, r.revision
		return func() (func(), error) { return b.handOver(ctx, r, id, parent, revision) }
	case none:
	}
	return func() (func(), error) { return func() {}, nil }
}

// has notes that a revision is complete; the store's change says so too, but
// perhaps later.
func (r *run) has(revision int) { r.revision = max(r.revision, revision) }

// recount asks the store what is open. Moves that the loop saw since are taken
// off, though the store may have counted them already: too low is counted
// again, too high would wait for a move that never comes.
func (b *Barrier) recount(ctx context.Context, r *run, id string) (func(), error) {
	_, open, err := b.deps.Runs.CountTasks(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("cannot count the tasks of run %s: %w", id, err)
	}
	return func() {
		r.open = open - r.moves
		r.settled = open == 0
	}, nil
}

// revised forgets the late answers that the revision holds; those that came
// meanwhile begin a new wait.
func (r *run) revised(seen int) {
	r.lateFirst = r.lateLast
	if r.lateSeen == seen {
		r.lateFirst, r.lateLast = time.Time{}, time.Time{}
	}
}

// closeBarrier closes the barrier, stores revision 1 and returns the newest
// revision. After a crash between the two it judges a fresh snapshot.
func (b *Barrier) closeBarrier(ctx context.Context, id string) (int, error) {
	if !enter(ctx, b.judging) {
		return 0, ctx.Err()
	}
	defer leave(b.judging)
	run, err := b.deps.Runs.GetRun(ctx, id)
	if err != nil || run.Revision > 0 {
		return run.Revision, err
	}
	now := b.deps.Now()
	snap, err := b.deps.Snapshots.CloseBarrier(ctx, id, now)
	if err != nil {
		return 0, fmt.Errorf("cannot close the barrier of run %s: %w", id, err)
	}
	defer func() { _ = snap.Close() }() // should judging panic
	rows, withdrawn, err := firstRows(snap, &run, now, b.cfg.Location)
	if err := closeSnapshot(snap, err); err != nil {
		return 0, fmt.Errorf("cannot judge run %s: %w", id, err)
	}
	why := protocol.WhyBarrier
	if now.Before(run.BarrierAt) {
		why = protocol.WhyAllSettled
		if withdrawn {
			why = protocol.WhyCancelled
		}
	}
	return 1, b.addRevision(ctx, store.NewRevision{RunID: id, Revision: 1, Why: string(why), AsOf: now, Rows: rows})
}

// revise stores the next revision if late answers changed a row. It returns
// the revision that it made, or 0.
func (b *Barrier) revise(ctx context.Context, id string) (int, error) {
	if n, err := b.deps.Revisions.LateChanges(ctx, id); err != nil || n == 0 {
		return 0, err
	}
	if !enter(ctx, b.judging) {
		return 0, ctx.Err()
	}
	defer leave(b.judging)
	run, err := b.deps.Runs.GetRun(ctx, id)
	if err != nil || run.Revision == 0 {
		return 0, err
	}
	now := b.deps.Now()
	snap, err := b.deps.Snapshots.Snapshot(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("cannot look at run %s: %w", id, err)
	}
	defer func() { _ = snap.Close() }()
	late, err := lateTargets(snap)
	if err := closeSnapshot(snap, err); err != nil {
		return 0, fmt.Errorf("cannot look at run %s: %w", id, err)
	}
	rows, err := changedRows(late, b.deps.Revisions.LoadRows(ctx, id, run.Revision), &run, now, b.cfg.Location)
	if err != nil {
		return 0, fmt.Errorf("cannot revise run %s: %w", id, err)
	}
	if len(rows) == 0 {
		return 0, nil
	}
	next := run.Revision + 1
	return next, b.addRevision(ctx, store.NewRevision{RunID: id, Revision: next,
		Why: string(protocol.WhyLateResults), AsOf: now, Rows: rows})
}

func (b *Barrier) addRevision(ctx context.Context, rev store.NewRevision) error {
	if err := b.deps.Revisions.AddRevision(ctx, rev, b.deps.Now()); err != nil {
		return fmt.Errorf("cannot store revision %d of run %s: %w", rev.Revision, rev.RunID, err)
	}
	b.deps.Log.Info("revision stored", "run_id", rev.RunID, "revision", rev.Revision, "why", rev.Why, "rows", len(rev.Rows))
	return nil
}

// end takes in what came late and closes the run. It returns the revision that
// it made, or 0. An answer that is accepted between the look and the close is
// taken in after it: from then on none is accepted.
func (b *Barrier) end(ctx context.Context, id string) (int, error) {
	revision, err := b.revise(ctx, id)
	if err != nil {
		return 0, err
	}
	run, err := b.deps.Runs.GetRun(ctx, id)
	if err != nil {
		return revision, err
	}
	if run.ClosedAt.IsZero() {
		if _, err := b.deps.Runs.CloseRun(ctx, id, task.ReasonExpired, b.deps.Now()); err != nil {
			return revision, fmt.Errorf("cannot close run %s: %w", id, err)
		}
	}
	last, err := b.revise(ctx, id)
	return max(revision, last), err
}

func closeSnapshot(snap Snapshot, err error) error {
	if closeErr := snap.Close(); err == nil {
		return closeErr
	}
	return err
}

func enter(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func leave(slots chan struct{}) { <-slots }
