package checker

import (
	"encoding/json"
	"slices"

	"muster/internal/protocol"
	"muster/internal/task"
)

// cancelled: what was withdrawn before its grant does not run.
func cancelled(b *book) {
	for _, m := range b.marks {
		t := b.tasks[m.Task]
		a, granted := b.attempts[execution{m.Task, m.Attempt}]
		if t.Status == task.Cancelled {
			b.weigh("withdrawn", 1)
		}
		if t.Status == task.Cancelled && granted && b.grantedAfter(a, t.SettledAt) {
			b.broken(Finding{Task: m.Task, Attempt: m.Attempt, Line: m.Source},
				"it was executed: withdrawn at %s, granted at %s", moment(t.SettledAt), moment(a.GrantedAt))
		}
	}
	said, last := map[string]int{}, map[string]request{} // run: how many tasks its cancels withdrew
	for _, r := range b.requests {
		if r.verb != protocol.VerbCancel || !r.reply.OK {
			continue
		}
		var asked protocol.CancelRequest
		if json.Unmarshal([]byte(r.asked.Payload), &asked) != nil {
			continue
		}
		b.weigh("cancels", 1)
		b.cancelledRun(r, asked)
		if n := r.reply.Cancelled; n != nil && *n > 0 {
			said[asked.RunID] += *n
			last[asked.RunID] = r
		}
	}
	for _, run := range sorted(said) {
		b.weigh("confirmed", said[run])
		are := 0
		for _, t := range b.ofRun[run] {
			if t.Status == task.Cancelled {
				are++
			}
		}
		if are < said[run] {
			b.broken(Finding{Run: run, Line: last[run].answered.Source}, "its cancels were confirmed for %d tasks, and %d are withdrawn", said[run], are)
		}
	}
}

// cancelledRun looks for executions of what a cancel withdrew that were granted
// after it was confirmed.
func (b *book) cancelledRun(r request, asked protocol.CancelRequest) {
	for _, m := range b.marks {
		t := b.tasks[m.Task]
		if t.RunID != asked.RunID || len(asked.Stores) > 0 && !slices.Contains(asked.Stores, t.StoreID) {
			continue
		}
		a := b.attempts[execution{m.Task, m.Attempt}]
		if b.grantedAfter(a, r.answered.AtMs) && t.Status != task.Cancelled {
			b.broken(Finding{Task: m.Task, Attempt: m.Attempt, Line: m.Source},
				"it was executed: its cancel was confirmed at %s (%s), it was granted at %s", moment(r.answered.AtMs), r.answered.Source, moment(a.GrantedAt))
		}
	}
}
