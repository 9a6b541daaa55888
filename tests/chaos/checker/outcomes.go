package checker

import (
	"encoding/json"
	"slices"

	"muster/internal/protocol"
	"muster/internal/task"
)

// bucketOf is where a settled task belongs.
func bucketOf(t Task) task.Outcome {
	switch t.Status {
	case task.Succeeded:
		return task.OutcomeSucceeded
	case task.Failed:
		return task.OutcomeFailed
	case task.Cancelled:
		return task.OutcomeCancelled
	case task.Pending, task.Running:
	}
	return ""
}

// outcomesTruly compares the rows with the tasks: at the barrier a target is in the
// bucket of what its task was then; later it moves by a late answer once, and forward by
// those of retries.
// A moment of a task, and that of a revision, are read before their commits.
func (b *book) outcomesTruly() {
	complete := map[string]map[int]Revision{} // run, revision
	for _, rev := range b.Store.Revisions {
		if complete[rev.RunID] == nil {
			complete[rev.RunID] = map[int]Revision{}
		}
		if rev.Complete != 0 {
			complete[rev.RunID][rev.Revision] = rev
		}
	}
	for _, run := range b.Store.Runs {
		of := map[string]Task{}
		for _, t := range b.ofRun[run.RunID] {
			of[t.StoreID] = t
		}
		before := map[string]Outcome{}
		for _, o := range b.outcomes[run.RunID] {
			rev, whole := complete[run.RunID][o.Revision]
			t, known := of[o.StoreID]
			if !whole || !known { // it is being made; or I4's
				continue
			}
			b.rowForward(o)
			old, again := before[o.StoreID]
			switch {
			case again && rev.Why == protocol.WhyRetryResults:
				b.outcomeRetried(old, o, rev)
			case again:
				b.outcomeMoved(old, o, t, rev.AsOf)
			default:
				b.outcomeAtBarrier(o, t, rev.AsOf)
			}
			if rev.Why != protocol.WhyRetryResults { // else the retry's own row was looked at
				b.rowReason(o, t, rev.AsOf)
			}
			before[o.StoreID] = o
		}
		b.outcomesLate(run, of)
		b.outcomesMerged(run)
	}
}

// noted is until when something that is noted as of a moment was committed.
func (b *book) noted(at int64) int64 { return b.due(at) + ms(b.limits.Barrier) }

// inTime: an answer settled it before the barrier closed, by the very transaction that
// would have called it late.
func (b *book) inTime(t Task) bool {
	a := b.attempts[execution{t.TaskID, t.Attempt}]
	return t.SettledAt != 0 && a.ReceivedAt == t.SettledAt && a.Late == 0
}

func (b *book) outcomeAtBarrier(o Outcome, t Task, asOf int64) {
	b.weigh("at the barrier", 1)
	where := Finding{Run: o.RunID, Task: t.TaskID}
	over := o.Outcome == task.OutcomeSucceeded || o.Outcome == task.OutcomeCancelled
	switch {
	case (b.inTime(t) || t.SettledAt != 0 && b.noted(t.SettledAt) < asOf) && o.Outcome != bucketOf(t):
		b.broken(where, "revision %d is as of %s and has its store %s as %s, the task was %s at %s", o.Revision, moment(asOf), o.StoreID, o.Outcome, t.Status, moment(t.SettledAt))
	case over && (t.SettledAt == 0 || t.SettledAt > b.noted(asOf) || o.Outcome != bucketOf(t)):
		b.broken(where, "revision %d is as of %s and has its store %s as %s, the task is %s, settled at %s", o.Revision, moment(asOf), o.StoreID, o.Outcome, t.Status, moment(t.SettledAt))
	}
}

func (b *book) outcomeMoved(old, o Outcome, t Task, asOf int64) {
	b.weigh("moved", 1)
	where := Finding{Run: o.RunID, Task: t.TaskID}
	was, is := old.row(), o.row()
	switch {
	case !is.Late:
		b.broken(where, "revision %d has another row of store %s, and no late answer made it", o.Revision, o.StoreID)
	case was.Late || old.Outcome == task.OutcomeSucceeded || old.Outcome == task.OutcomeCancelled:
		b.broken(where, "revision %d has store %s as %s, and it was %s for good in revision %d", o.Revision, o.StoreID, o.Outcome, old.Outcome, old.Revision)
	case t.SettledAt == 0 || t.SettledAt > b.noted(asOf) || o.Outcome != bucketOf(t):
		b.broken(where, "revision %d is as of %s and has its store %s as %s, the task is %s, settled at %s", o.Revision, moment(asOf), o.StoreID, o.Outcome, t.Status, moment(t.SettledAt))
	}
}

// row is what the report has of the target; the zero value if it cannot be read, as
// I5 says of the file.
func (o Outcome) row() (row protocol.StoreRow) {
	_ = json.Unmarshal([]byte(o.Row), &row)
	return row
}

// acceptLate is the policy by which late answers make revisions.
const acceptLate = "accept_and_revise"

// outcomesLate: once it is quiet, what a late answer settled is in the report.
func (b *book) outcomesLate(run Run, of map[string]Task) {
	if run.ClosedAt == 0 || run.Policy.Late != acceptLate {
		return
	}
	newest := b.judged(run.RunID, run.Revision)
	quiet := max(run.ClosedAt, b.lastFault(), b.lastLate(run.RunID)) + ms(b.limits.Settle) // late answers share a revision
	for _, store := range sorted(of) {
		t := of[store]
		a := b.attempts[execution{t.TaskID, t.Attempt}]
		settledIt := t.SettledAt != 0 && a.Late != 0 && a.ReceivedAt == t.SettledAt && a.EndedAt == t.SettledAt && t.Status != task.Cancelled
		if !settledIt || b.Store.TakenAt <= quiet {
			continue
		}
		b.weigh("late", 1)
		if row, there := newest[store]; there && (rank(row.Outcome) < rank(bucketOf(t)) || !row.row().Late) {
			b.broken(Finding{Run: run.RunID, Task: t.TaskID}, "a late answer made it %s at %s, and revision %d has its store %s as %s",
				t.Status, moment(t.SettledAt), run.Revision, store, row.Outcome)
		}
	}
}

// rowReason: a reason is one of its outcome, and what nobody was ever granted was not.
func (b *book) rowReason(o Outcome, t Task, asOf int64) {
	where := Finding{Run: o.RunID, Task: t.TaskID}
	if !slices.Contains(o.Outcome.Reasons(), o.Reason) {
		b.broken(where, "revision %d has store %s as %s for %q, which is no reason of it", o.Revision, o.StoreID, o.Outcome, o.Reason)
	}
	if o.Reason != task.ReasonOnlineNeverClaimed && o.Reason != task.ReasonOfflineWholeWindow {
		return
	}
	b.weigh("never granted", 1)
	for _, a := range b.ofTask[t.TaskID] {
		if b.noted(a.GrantedAt) < asOf {
			b.broken(where, "revision %d is as of %s and has store %s as %s, attempt %d was granted at %s", o.Revision, moment(asOf), o.StoreID, o.Reason, a.Attempt, moment(a.GrantedAt))
			return
		}
	}
}

// revisionsEarlier: what an older copy of the database had judged and published is the
// same now.
func (b *book) revisionsEarlier() {
	if b.Earlier == nil {
		return
	}
	type key struct {
		run, store string
		revision   int
	}
	revisions, rows := map[key]Revision{}, map[key]Outcome{}
	for _, rev := range b.Store.Revisions {
		revisions[key{run: rev.RunID, revision: rev.Revision}] = rev
	}
	for _, o := range b.Store.Outcomes {
		rows[key{o.RunID, o.StoreID, o.Revision}] = o
	}
	complete := map[key]bool{}
	for _, old := range b.Earlier.Revisions {
		one := key{run: old.RunID, revision: old.Revision}
		complete[one] = old.Complete != 0
		if old.PublishedAt == 0 {
			continue
		}
		b.weigh("earlier", 1)
		if now := revisions[one]; now.PublishedAt != old.PublishedAt || now.AsOf != old.AsOf || now.Why != old.Why || now.Seen != old.Seen || !slices.Equal(now.Files, old.Files) {
			b.broken(Finding{Run: old.RunID}, "revision %d was published at %s as of %s, and the store has it otherwise now", old.Revision, moment(old.PublishedAt), moment(old.AsOf))
		}
	}
	for _, old := range b.Earlier.Outcomes {
		if now := rows[key{old.RunID, old.StoreID, old.Revision}]; complete[key{run: old.RunID, revision: old.Revision}] && now != old {
			b.broken(Finding{Run: old.RunID}, "revision %d had store %s as %s %q and now has it as %s %q", old.Revision, old.StoreID, old.Outcome, old.Reason, now.Outcome, now.Reason)
		}
	}
}

// rowForward: in a row nothing ends before it begins.
func (b *book) rowForward(o Outcome) {
	row := o.row()
	granted, started, finished := row.Evidence.GrantedAt, row.Evidence.StartedAt, row.FinishedAt
	after := func(a, c protocol.Time) bool {
		return !a.IsZero() && !c.IsZero() && c.Before(a.Add(-b.limits.Slack))
	}
	if after(granted, started) || after(started, finished) {
		b.broken(Finding{Run: o.RunID, Task: row.TaskID}, "revision %d has store %s as granted at %s, started at %s and finished at %s", o.Revision, o.StoreID,
			moment(granted.UnixMilli()), moment(started.UnixMilli()), moment(finished.UnixMilli()))
	}
}
