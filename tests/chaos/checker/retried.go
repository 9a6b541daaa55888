package checker

import (
	"slices"

	"muster/internal/protocol"
	"muster/internal/task"
)

// rank is how far an outcome has come: a retry moves it up alone. What was withdrawn
// stays.
func rank(o task.Outcome) int {
	return slices.Index([]task.Outcome{task.OutcomeFailed, task.OutcomeSucceeded}, o)
}

// missed: a retry may ask it again.
func missed(o task.Outcome) bool {
	return o == task.OutcomeFailed || o == task.OutcomeTimedOut || o == task.OutcomeOffline
}

// outcomeRetried: a row that retries made is forward of what it was, and one that a
// retry of the run has in its own report.
func (b *book) outcomeRetried(old, o Outcome, rev Revision) {
	b.weigh("retried", 1)
	where := Finding{Run: o.RunID, Task: o.row().TaskID}
	switch {
	case !missed(old.Outcome) || rank(o.Outcome) <= rank(old.Outcome):
		b.broken(where, "revision %d has store %s as %s by a retry, and it was %s in revision %d", o.Revision, o.StoreID, o.Outcome, old.Outcome, old.Revision)
	case !o.row().Late:
		b.broken(where, "revision %d has another row of store %s, and does not call it late", o.Revision, o.StoreID)
	case !b.hasRetried(o, rev):
		b.broken(where, "revision %d has store %s as %s, and no retry of the run had it so by then", o.Revision, o.StoreID, o.Outcome)
	}
}

// wasRetried: retries may have moved the rows already that late answers would move.
// What became of each answer is looked at with the outcomes.
func (b *book) wasRetried(run string) bool {
	return slices.ContainsFunc(b.Store.Revisions, func(r Revision) bool { return r.RunID == run && r.Why == protocol.WhyRetryResults })
}

// hasRetried: a retry of the run had the row when the revision was made.
func (b *book) hasRetried(o Outcome, rev Revision) bool {
	for _, retry := range b.Store.Runs {
		if retry.ParentRun != o.RunID {
			continue
		}
		for _, own := range b.outcomes[retry.RunID] {
			if own.StoreID == o.StoreID && own.Outcome == o.Outcome && own.row().TaskID == o.row().TaskID && b.madeBy(own, rev.AsOf) {
				return true
			}
		}
	}
	return false
}

// madeBy: the row's revision was complete then.
func (b *book) madeBy(o Outcome, at int64) bool {
	return slices.ContainsFunc(b.Store.Revisions, func(r Revision) bool {
		return r.RunID == o.RunID && r.Revision == o.Revision && r.Complete != 0 && r.AsOf <= b.noted(at)
	})
}

// outcomesMerged: once it is quiet, what a retry's report says is in its parent's.
func (b *book) outcomesMerged(retry Run) {
	parent, known := b.runs[retry.ParentRun]
	if !known {
		return // no retry; or I4's
	}
	var last Revision
	for _, rev := range b.Store.Revisions {
		if rev.RunID == retry.RunID && rev.Complete != 0 {
			last = rev
		}
	}
	if last.Complete == 0 || b.Store.TakenAt <= max(last.AsOf, b.lastFault())+ms(b.limits.Settle) {
		return
	}
	own, newest := b.judged(retry.RunID, last.Revision), b.judged(parent.RunID, parent.Revision)
	for _, store := range sorted(own) {
		b.weigh("merged", 1)
		row, there := newest[store]
		if there && missed(row.Outcome) && rank(own[store].Outcome) > rank(row.Outcome) {
			b.broken(Finding{Run: parent.RunID, Task: own[store].row().TaskID}, "revision %d of its retry %s has store %s as %s, and revision %d of the run as %s",
				last.Revision, retry.RunID, store, own[store].Outcome, parent.Revision, row.Outcome)
		}
	}
}

// targetsRetried: a retry is of targets of its parent that had a row when it was asked
// for, and no two retries of a run ask a store at once.
func (b *book) targetsRetried(retry Run) {
	if retry.ParentRun == "" {
		return
	}
	b.weigh("retries", 1)
	where := Finding{Run: retry.RunID}
	parent, known := b.runs[retry.ParentRun]
	if !known {
		b.broken(where, "it is a retry of run %s, and the store has no such run", retry.ParentRun)
		return
	}
	for _, store := range sorted(b.targets[retry.RunID]) {
		if !b.targets[parent.RunID][store] {
			b.broken(where, "its target %s is none of run %s, of which it is a retry", store, parent.RunID)
		}
	}
	if parent.ClosedAt == 0 || parent.ClosedAt > b.noted(retry.CreatedAt) {
		b.broken(where, "it was asked for at %s, and the barrier of run %s closed at %s", moment(retry.CreatedAt), parent.RunID, moment(parent.ClosedAt))
	}
	for _, t := range b.ofRun[retry.RunID] {
		for _, other := range b.ofStore[t.StoreID] {
			if other.RunID < t.RunID && b.root(other.RunID) == b.root(t.RunID) && b.together(other, t) {
				b.broken(Finding{Run: retry.RunID, Task: t.TaskID}, "store %s is asked by task %s of run %s at the same time", t.StoreID, other.TaskID, other.RunID)
			}
		}
	}
}

// together: both tasks were open for longer than the moments that are noted may be off.
func (b *book) together(a, c Task) bool {
	until := func(t Task) int64 {
		if t.SettledAt == 0 {
			return b.Store.TakenAt
		}
		return t.SettledAt
	}
	return min(until(a), until(c)) > b.noted(max(a.CreatedAt, c.CreatedAt))
}

// root is the run of which a run is a retry, or a retry of a retry.
func (b *book) root(run string) string {
	for seen := 0; b.runs[run].ParentRun != "" && seen < len(b.runs); seen++ {
		run = b.runs[run].ParentRun
	}
	return run
}

// ordersRun reports whether a request of the verb makes a run.
func ordersRun(verb protocol.Verb) bool {
	return verb == protocol.VerbRun || verb == protocol.VerbRetry
}
