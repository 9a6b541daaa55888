package checker

import (
	"encoding/json"

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
// bucket of what its task was then; later it moves once, by a late answer, forward.
// A moment of a task, and that of a revision, are read before their commits.
func (b *book) outcomesTruly() {
	asOf := map[string]map[int]int64{} // run, revision
	for _, rev := range b.Store.Revisions {
		if asOf[rev.RunID] == nil {
			asOf[rev.RunID] = map[int]int64{}
		}
		if rev.Complete != 0 {
			asOf[rev.RunID][rev.Revision] = rev.AsOf
		}
	}
	for _, run := range b.Store.Runs {
		of := map[string]Task{}
		for _, t := range b.ofRun[run.RunID] {
			of[t.StoreID] = t
		}
		before := map[string]Outcome{}
		for _, o := range b.outcomes[run.RunID] {
			at, complete := asOf[run.RunID][o.Revision]
			t, known := of[o.StoreID]
			if !complete || !known { // it is being made; or I4's
				continue
			}
			b.rowForward(o)
			if old, again := before[o.StoreID]; again {
				b.outcomeMoved(old, o, t, at)
			} else {
				b.outcomeAtBarrier(o, t, at)
			}
			before[o.StoreID] = o
		}
		b.outcomesLate(run, of)
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
		if row, there := newest[store]; there && (row.Outcome != bucketOf(t) || !row.row().Late) {
			b.broken(Finding{Run: run.RunID, Task: t.TaskID}, "a late answer made it %s at %s, and revision %d has its store %s as %s",
				t.Status, moment(t.SettledAt), run.Revision, store, row.Outcome)
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
