package checker

import (
	"slices"
	"sort"

	"muster/internal/protocol"
	"muster/internal/task"
)

// moves: each task ends once, by legal moves, and a stale attempt changes
// nothing.
func moves(b *book) {
	for _, t := range b.Store.Tasks {
		b.weigh("tasks", 1)
		where := Finding{Task: t.TaskID}
		if n, most := len(b.ofTask[t.TaskID]), t.Attempts-t.Skipped; n > most {
			b.broken(where, "the store has %d records of attempts of it, %d are allowed", n, most)
		}
		if !t.state().Valid() {
			b.broken(where, "the store has it as %s, attempt %d, settled %t, which is no state", t.Status, t.Attempt, t.SettledAt != 0)
			continue
		}
		if t.Skipped > 0 {
			b.movesSkipped(t)
			continue
		}
		for n := 1; n <= t.Attempt; n++ {
			a, known := b.attempts[execution{t.TaskID, n}]
			where.Attempt = n
			switch {
			case !known:
				b.broken(where, "the store has %d attempts of it and no record of this one", t.Attempt)
			case n < t.Attempt && a.Answer == protocol.AnswerSucceeded && a.Code == "" && a.Late == 0:
				b.broken(where, "it succeeded, and attempt %d was granted all the same", n+1)
			case n == t.Attempt && t.Status == task.Succeeded && a.EndedAt == 0:
				b.broken(where, "the task is SUCCEEDED and its attempt has not ended")
			case n == t.Attempt && t.Status == task.Succeeded && (a.Answer != protocol.AnswerSucceeded || a.Code != ""):
				b.broken(where, "the task is SUCCEEDED and its attempt ended as %q with code %q", a.Answer, a.Code)
			}
		}
	}
	for _, a := range b.Store.Attempts {
		t := b.tasks[a.TaskID]
		if a.Attempt > t.Attempt {
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "the store has a record of it, the task is at attempt %d", t.Attempt)
		} else if t.SettledAt != 0 && b.grantedAfter(a, t.SettledAt) && t.Status != task.Cancelled { // else it is I9's
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "it was granted at %s, the task was over at %s", moment(a.GrantedAt), moment(t.SettledAt))
		}
		b.movesForward(a)
	}
	for _, o := range b.grants {
		if _, known := b.attempts[o.execution()]; !known {
			b.broken(Finding{Task: o.Order.TaskID, Attempt: o.Order.Attempt, Line: o.Source}, "its grant was got and the store has no record of it")
		}
	}
	b.weigh("grants", len(b.grants))
	for _, o := range b.doubled {
		b.broken(Finding{Task: o.Order.TaskID, Attempt: o.Order.Attempt, Line: o.Source}, "its grant was got by %s, and by another terminal before", o.Who)
	}
	b.movesEarlier()
	b.answersEarlier()
	b.movesSeen()
}

// movesForward: nothing of an attempt comes before its grant, and nothing takes less
// than no time.
func (b *book) movesForward(a Attempt) {
	where := Finding{Task: a.TaskID, Attempt: a.Attempt}
	for _, m := range []struct {
		what string
		at   int64
	}{{"started", a.StartedAt}, {"answered", a.ReceivedAt}, {"ended", a.EndedAt}} {
		if m.at != 0 && m.at < a.GrantedAt-ms(b.limits.Slack) {
			b.broken(where, "the store has it as %s at %s, before its grant at %s", m.what, moment(m.at), moment(a.GrantedAt))
		}
	}
	if a.DurationMs < 0 {
		b.broken(where, "the store has it as taking %d ms", a.DurationMs)
	}
}

// movesSkipped: after a restore the numbers of a task's attempts go on above all
// that were ever granted, so that some have no record.
func (b *book) movesSkipped(t Task) {
	where := Finding{Task: t.TaskID}
	records := b.ofTask[t.TaskID]
	if len(records) != t.Attempt-t.Skipped {
		b.broken(where, "the store is at attempt %d of it, skipped %d, and has %d records", t.Attempt, t.Skipped, len(records))
	}
	for i, a := range records {
		where.Attempt = a.Attempt
		switch last := i == len(records)-1; {
		case last && a.Attempt != t.Attempt:
			b.broken(where, "it is the last attempt with a record, the task is at attempt %d", t.Attempt)
		case !last && a.Answer == protocol.AnswerSucceeded && a.Code == "" && a.Late == 0:
			b.broken(where, "it succeeded, and attempt %d was granted all the same", records[i+1].Attempt)
		case last && t.Status == task.Succeeded && (a.Answer != protocol.AnswerSucceeded || a.Code != ""):
			b.broken(where, "the task is SUCCEEDED and its attempt ended as %q with code %q", a.Answer, a.Code)
		}
	}
}

// ordinal is the place of an attempt among those of its task, whose numbers go on
// higher up after a restore.
func (b *book) ordinal(taskID string, attempt int) int {
	if b.tasks[taskID].Skipped == 0 {
		return attempt
	}
	return sort.Search(len(b.ofTask[taskID]), func(i int) bool { return b.ofTask[taskID][i].Attempt > attempt })
}

// grantedAfter: headquarters reads the moment of a move before its commit, so
// that two moves of a task may be noted the wrong way round, by the slack.
func (b *book) grantedAfter(a Attempt, at int64) bool { return a.GrantedAt > at+ms(b.limits.Slack) }

// movesEarlier: what was over in an older copy of the database is the same now.
func (b *book) movesEarlier() {
	if b.Earlier == nil {
		return
	}
	for _, old := range b.Earlier.Tasks {
		b.weigh("earlier", 1)
		now, known := b.tasks[old.TaskID]
		where := Finding{Run: old.RunID, Task: old.TaskID}
		switch {
		case !known:
			b.broken(where, "an earlier copy of the store has it, this one has not")
		case old.SettledAt != 0 && (now.Status != old.Status || now.Attempt != old.Attempt || now.SettledAt != old.SettledAt):
			b.broken(where, "it was over as %s at %s, and is now %s at %s", old.Status, moment(old.SettledAt), now.Status, moment(now.SettledAt))
		case now.Attempt < old.Attempt:
			b.broken(where, "it was at attempt %d and is now at %d", old.Attempt, now.Attempt)
		}
	}
}

// answersEarlier: an answer that an older copy of the database had is there, as it
// was: what comes later for an attempt changes nothing.
func (b *book) answersEarlier() {
	if b.Earlier == nil {
		return
	}
	for _, old := range b.Earlier.Attempts {
		now := b.attempts[execution{old.TaskID, old.Attempt}]
		if old.ReceivedAt != 0 && (now.ReceivedAt != old.ReceivedAt || now.SHA256 != old.SHA256 || now.Answer != old.Answer || now.TerminalID != old.TerminalID) {
			b.broken(Finding{Task: old.TaskID, Attempt: old.Attempt}, "the store had the answer %s of %s, at %s, and now has %s of %s, at %s",
				short(old.SHA256), old.TerminalID, moment(old.ReceivedAt), short(now.SHA256), now.TerminalID, moment(now.ReceivedAt))
		}
	}
}

// movesSeen follows the events of each store. Events get lost while a broker is
// away, so that what is seen next must be reachable, not next.
func (b *book) movesSeen() {
	last := map[seat]event{}
	for _, e := range b.events {
		b.weigh("events", 1)
		key := seat{fileOf(e.Line), e.StoreEvent.TaskID}
		before, seen := last[key]
		from, to := task.State{Status: task.Pending}, b.stateOf(e.StoreEvent)
		if seen {
			from = b.stateOf(before.StoreEvent)
		}
		if seen && (e.StoreEvent.ID == before.StoreEvent.ID || e.StoreEvent.Seq < before.StoreEvent.Seq && !e.StoreEvent.At.After(before.StoreEvent.At.Time)) {
			continue // said again, or overtaken on its way
		}
		where := Finding{Run: e.StoreEvent.RunID, Task: e.StoreEvent.TaskID, Attempt: e.StoreEvent.Attempt, Line: e.Source}
		if t, known := b.tasks[e.StoreEvent.TaskID]; e.AtMs <= b.Store.TakenAt && (!known || t.RunID != e.StoreEvent.RunID || t.StoreID != e.StoreEvent.StoreID) {
			b.broken(where, "it is seen as a task of store %s, and the store has it as one of run %q and store %q", e.StoreEvent.StoreID, t.RunID, t.StoreID)
			continue
		}
		if !reachable(from, to) {
			b.broken(where, "it is seen as %s, after it was %s at attempt %d, and no moves lead there", to.Status, from.Status, from.Attempt)
		}
		if t, known := b.tasks[e.StoreEvent.TaskID]; known && to.Settled && t.SettledAt != 0 && to.Status != t.Status {
			b.broken(where, "it is seen to end as %s, the store has it as %s", to.Status, t.Status)
		}
		last[key] = e
	}
}

func (b *book) stateOf(e protocol.StoreEvent) task.State {
	settled := e.Status == task.Succeeded || e.Status == task.Cancelled || e.Event == "failed"
	return task.State{Status: e.Status, Attempt: b.ordinal(e.TaskID, e.Attempt), Settled: settled}
}

// reachable: some moves of the table lead from one state to the other.
func reachable(from, to task.State) bool {
	open := []task.State{from}
	for len(open) > 0 {
		state := open[0]
		open = open[1:]
		if state == to {
			return true
		}
		for _, e := range task.Events() {
			if next, err := state.Next(e); err == nil && next.Attempt <= to.Attempt && !slices.Contains(open, next) {
				open = append(open, next)
			}
		}
	}
	return false
}
