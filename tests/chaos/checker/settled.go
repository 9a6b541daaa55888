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
		rev, published := newest[run.RunID]
		b.ends(run, rev, last)
		if b.Store.TakenAt < max(cmp.Or(run.ClosedAt, run.BarrierAt), last)+ms(b.limits.Settle) {
			b.weigh("not yet", 1)
			continue
		}
		b.weigh("reports", 1)
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

// ends: a run is closed, with nothing open, when its make-up window is over, or all of
// it and its report are.
func (b *book) ends(run Run, newest Revision, last int64) {
	over, open := newest.PublishedAt, 0
	for _, t := range b.ofRun[run.RunID] {
		if t.SettledAt == 0 {
			open++
		}
		over = max(over, t.SettledAt)
	}
	if open > 0 || newest.Revision < run.Revision || newest.PublishedAt == 0 {
		over = run.MakeupUntil
	}
	if b.Store.TakenAt <= max(min(over, run.MakeupUntil), last)+ms(b.limits.Settle) {
		return // it has time yet
	}
	b.weigh("ends", 1)
	if run.EndedAt == 0 || open > 0 {
		b.broken(Finding{Run: run.RunID}, "it was to end at %s, the last fault ended at %s, and at %s it is closed %t and has %d tasks open",
			moment(min(over, run.MakeupUntil)), moment(last), moment(b.Store.TakenAt), run.EndedAt != 0, open)
	}
}

// missing: the row says that more may come. A failed task stays failed in the
// report while its next attempt is awaited.
func missing(row Outcome, t Task) bool {
	return row.Outcome == task.OutcomeTimedOut || row.Outcome == task.OutcomeOffline ||
		row.Outcome == task.OutcomeFailed && (t.Status == task.Failed || t.Attempt > 1)
}
