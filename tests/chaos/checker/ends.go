package checker

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/history"
)

// barriers: a run's barrier closes at its deadline, or earlier when nothing is
// open.
func barriers(b *book) {
	for _, run := range b.Store.Runs {
		where := Finding{Run: run.RunID}
		due := b.due(run.BarrierAt)
		slack := ms(b.limits.Barrier)
		switch {
		case run.ClosedAt == 0 && b.Store.TakenAt > due+slack:
			b.broken(where, "its barrier was due at %s and is not closed at %s", moment(due), moment(b.Store.TakenAt))
		case run.ClosedAt > due+slack:
			b.broken(where, "its barrier was due at %s and closed at %s", moment(due), moment(run.ClosedAt))
		case run.ClosedAt != 0 && run.ClosedAt < run.BarrierAt-slack:
			for _, t := range b.ofRun[run.RunID] {
				if t.SettledAt == 0 || t.SettledAt > run.ClosedAt+ms(b.limits.Slack) {
					b.broken(where, "its barrier was due at %s and closed at %s, with task %s open", moment(run.BarrierAt), moment(run.ClosedAt), t.TaskID)
					break
				}
			}
		}
	}
}

// due is when a deadline can be kept: at it, or when headquarters is back, for
// long enough to close a barrier.
func (b *book) due(at int64) int64 {
	for again := true; again; {
		again = false
		for _, f := range b.faults {
			end := f.end
			if end == 0 {
				end = b.Store.TakenAt
			}
			if strings.HasPrefix(f.name, faultDispatcher) && f.begin <= at+ms(b.limits.Barrier) && at < end {
				at, again = end, true
			}
		}
	}
	return at
}

// offers: after a broker came back, each open task's offer is there again for
// whoever subscribes.
func offers(b *book) {
	for _, f := range b.faults {
		if f.end == 0 || f.name != faultBroker && f.name != faultDispatcher {
			continue
		}
		for _, s := range b.subscriptions(f.end) {
			for _, t := range b.ofStore[s.store] {
				if b.mustBeOffered(t, f, s.until) && !b.wasOffered(t, f.end, s.until) {
					b.broken(Finding{Task: t.TaskID, Line: s.line.Source},
						"the %s was back at %s, store %s subscribed at %s and was not offered the open task until %s",
						f.name, moment(f.end), s.store, moment(s.line.AtMs), moment(s.until))
				}
			}
		}
	}
}

type subscription struct {
	line  history.Line
	store string
	until int64
}

// subscriptions are the first ones to the offers of each store after a moment.
// Where the connection ends too early to say anything, the next one counts.
func (b *book) subscriptions(after int64) (list []subscription) {
	seen := map[string]bool{}
	for _, l := range b.subscribed {
		if l.AtMs < after {
			continue
		}
		store, rest, _ := strings.Cut(strings.TrimPrefix(l.Topic, b.topics.Root()+"/stores/"), "/")
		until := l.AtMs + ms(b.limits.Reoffer)
		if rest != "tasks/+" && rest != "#" || !protocol.ValidID(store) || seen[store] || !b.stays(l, until) {
			continue
		}
		seen[store] = true
		list = append(list, subscription{l, store, until})
	}
	return list
}

// faultTerminal is how faults begin that headquarters and its broker have no part
// in, and other terminals none.
const faultTerminal = "terminal"

// stays: no connection of the participant ends before until, and no fault begins
// that headquarters could feel.
func (b *book) stays(l history.Line, until int64) bool {
	within := func(at int64) bool { return at >= l.AtMs && at <= until }
	return b.Store.TakenAt >= until && !slices.ContainsFunc(b.ended[l.Who], within) &&
		!slices.ContainsFunc(b.faults, func(f fault) bool { return within(f.begin) && !strings.HasPrefix(f.name, faultTerminal) })
}

// mustBeOffered: the task was open from before the fault's end until after the
// wait.
func (b *book) mustBeOffered(t Task, f fault, until int64) bool {
	return t.CreatedAt <= f.end && (t.SettledAt == 0 || t.SettledAt > until)
}

func (b *book) wasOffered(t Task, from, until int64) bool {
	return slices.ContainsFunc(b.offered[b.topics.Offer(t.StoreID, t.TaskID)], func(at int64) bool { return at >= from && at <= until })
}

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

// audit: the chain of the audit's entries holds.
func audit(b *book) {
	if b.Audit == nil {
		return
	}
	var said struct {
		OK    *bool  `json:"ok"`
		Text  string `json:"text"`
		Wrong int64  `json:"wrong"`
	}
	switch err := json.Unmarshal(b.Audit.Output, &said); {
	case err != nil || said.OK == nil:
		b.broken(Finding{}, "what audit verify printed says nothing (exit code %d): %s", b.Audit.Exit, clip(string(b.Audit.Output)))
	case b.Audit.Exit != 0 || !*said.OK || said.Wrong != 0:
		b.broken(Finding{}, "audit verify ended with code %d and %d faults: %s", b.Audit.Exit, said.Wrong, said.Text)
	}
}

func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
