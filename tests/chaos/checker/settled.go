package checker

import (
	"cmp"

	"muster/internal/task"
)

// settled: once the faults are over, everything ends or is reported missing.
func settled(b *book) {
	last := b.lastFault()
	newest := map[string]Revision{}
	for _, rev := range b.Store.Revisions {
		if rev.PublishedAt != 0 {
			newest[rev.RunID] = rev
		}
		if run := b.runs[rev.RunID]; rev.Revision == 1 && rev.PublishedAt > max(run.ClosedAt, last)+ms(b.limits.Settle) {
			b.broken(Finding{Run: rev.RunID}, "the barrier closed at %s, the last fault ended at %s, and revision 1 came at %s",
				moment(run.ClosedAt), moment(last), moment(rev.PublishedAt))
		}
	}
	for _, run := range b.Store.Runs {
		if b.Store.TakenAt < max(cmp.Or(run.ClosedAt, run.BarrierAt), last)+ms(b.limits.Settle) {
			continue // it has time yet
		}
		rev, published := newest[run.RunID]
		if !published {
			b.broken(Finding{Run: run.RunID}, "the last fault ended at %s and at %s it has no report", moment(last), moment(b.Store.TakenAt))
			continue
		}
		judged := b.judged(run.RunID, rev.Revision)
		for _, t := range b.ofRun[run.RunID] {
			row := judged[t.StoreID]
			if t.SettledAt == 0 && !missing(row, t) {
				b.broken(Finding{Task: t.TaskID}, "it is %s at %s and revision %d has its store %s as %q: neither settled nor missing",
					t.Status, moment(b.Store.TakenAt), rev.Revision, t.StoreID, row.Outcome)
			}
		}
	}
}

// missing: the row says that more may come. A failed task stays failed in the
// report while its next attempt is awaited.
func missing(row Outcome, t Task) bool {
	return row.Outcome == task.OutcomeTimedOut || row.Outcome == task.OutcomeOffline ||
		row.Outcome == task.OutcomeFailed && (t.Status == task.Failed || t.Attempt > 1)
}
