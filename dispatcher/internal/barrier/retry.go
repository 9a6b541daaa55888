package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Retries is what the barrier asks of runs that repeat a part of another.
type Retries interface {
	ListUnmerged(ctx context.Context) ([]store.Run, error)
	MarkMerged(ctx context.Context, runID string, revision int) error
}

// handOver gives a retry's newest revision to its parent, which may be closed and
// forgotten since long.
func (b *Barrier) handOver(ctx context.Context, r *run, id, parent string, revision int) (func(), error) {
	p, err := b.deps.Runs.GetRun(ctx, parent)
	if err != nil {
		return nil, fmt.Errorf("cannot get run %s, of which %s is a retry: %w", parent, id, err)
	}
	return func() {
		r.handed = max(r.handed, revision)
		known := b.runs[parent]
		if known == nil {
			known = newRun(&p)
			b.runs[parent] = known
		}
		known.retries = append(known.retries, id)
		b.arrange(known)
	}, nil
}

// merge makes the next revision of a run's report of what a retry's newest says, if
// that carries a target forward. It returns the newest revision.
func (b *Barrier) merge(ctx context.Context, id, retry string) (int, error) {
	if !enter(ctx, b.judging) {
		return 0, ctx.Err()
	}
	defer leave(b.judging)
	parent, err := b.deps.Runs.GetRun(ctx, id)
	if err != nil {
		return 0, err
	}
	child, err := b.deps.Runs.GetRun(ctx, retry)
	if err != nil {
		return 0, err
	}
	rows, err := forwardRows(b.deps.Revisions.LoadRows(ctx, id, parent.Revision), b.deps.Revisions.LoadRows(ctx, retry, child.Revision))
	if err != nil {
		return 0, fmt.Errorf("cannot merge run %s into run %s: %w", retry, id, err)
	}
	revision := parent.Revision
	if len(rows) > 0 {
		revision++
		err := b.addRevision(ctx, store.NewRevision{RunID: id, Revision: revision, Why: string(protocol.WhyRetryResults), AsOf: b.deps.Now(), Rows: rows})
		if err != nil {
			return 0, err
		}
	}
	return revision, b.deps.Retries.MarkMerged(ctx, retry, child.Revision)
}

// rank orders outcomes as a retry may move them: a store that was not heard of, one
// that failed, one that succeeded. What was withdrawn is no answer and stays.
func rank(o task.Outcome) int {
	switch o {
	case task.OutcomeTimedOut, task.OutcomeOffline:
		return 1
	case task.OutcomeFailed:
		return 2
	case task.OutcomeSucceeded:
		return 3
	case task.OutcomeCancelled:
	}
	return 0
}

// forwardRows are the parent's rows that a retry carries forward, never back. Both
// come by store id; the retry's are the fewer ones, and are kept.
func forwardRows(parent, retry iter.Seq2[store.OutcomeRow, error]) ([]store.OutcomeRow, error) {
	answers := map[string]store.OutcomeRow{}
	for row, err := range retry {
		if err != nil {
			return nil, err
		}
		answers[row.StoreID] = row
	}
	var rows []store.OutcomeRow
	for old, err := range parent {
		if err != nil {
			return nil, err
		}
		answer, asked := answers[old.StoreID]
		if !asked || rank(old.Outcome) == 0 || rank(answer.Outcome) <= rank(old.Outcome) {
			continue
		}
		row, err := carried(old, answer)
		if err != nil {
			return nil, fmt.Errorf("cannot carry store %s forward: %w", old.StoreID, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// carried is the answer of a retry in the place of the row that the parent had: what
// the barrier froze stays, and so do the store's name and labels.
func carried(old, answer store.OutcomeRow) (store.OutcomeRow, error) {
	var was, row protocol.StoreRow
	if err := errors.Join(json.Unmarshal(old.Row, &was), json.Unmarshal(answer.Row, &row)); err != nil {
		return store.OutcomeRow{}, err
	}
	row.Name, row.Labels, row.AtBarrier, row.Late = was.Name, was.Labels, was.AtBarrier, true
	raw, err := encodeRow(&row)
	return store.OutcomeRow{StoreID: old.StoreID, Outcome: answer.Outcome, Reason: answer.Reason, Row: raw}, err
}
