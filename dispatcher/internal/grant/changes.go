package grant

import (
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Changed follows the store's change feed, which comes after each commit and in
// its order: slots are taken and given back by it alone. It returns at once.
func (a *Admission) Changed(changes []store.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer signal(a.admitWake)
	for _, c := range changes {
		switch c.Kind {
		case store.TaskMoved:
			a.moved(c)
		case store.RunClosed:
			delete(a.runs, c.RunID)
		case store.RunCreated, store.RevisionReady:
		}
	}
}

func (a *Admission) moved(c store.Change) {
	t := *c.Task
	if c.From.Status == task.Running {
		if sl := a.slots.of(t.TaskID, c.From.Attempt); sl != nil {
			a.slots.giveBack(sl)
		}
		if c.Event == task.Cancel {
			a.orders = append(a.orders, cancelOrder(terminal{t.StoreID, t.HolderID}, t.TaskID,
				c.From.Attempt, string(t.Reason)))
		}
	}
	switch {
	case t.State.Status == task.Running:
		a.running(t)
	case t.State.Settled:
		a.denyWaiting(t, protocol.CodeSettled)
	}
}

// running confirms the slot of a committed grant and answers the others who
// wait for the same task.
func (a *Admission) running(t store.Task) {
	sl := a.slots.byTask[t.TaskID]
	if sl == nil {
		// The commit outlived the call that asked for it.
		r := a.runs[t.RunID]
		if r == nil {
			return
		}
		sl = &slot{task: t.TaskID, run: r, holder: terminal{t.StoreID, t.HolderID}, instance: t.Instance, until: a.cfg.Awake().Add(firstLease(r))}
		a.slots.take(sl)
	}
	if sl.attempt == 0 {
		sl.holder, sl.instance = terminal{t.StoreID, t.HolderID}, t.Instance
		a.slots.confirm(sl, t)
	}
	a.denyWaiting(t, protocol.CodeTaken)
}

// denyWaiting answers everybody who waits for a task that cannot be had now.
func (a *Admission) denyWaiting(t store.Task, code protocol.Code) {
	for _, c := range a.queue.dropTask(t.TaskID) {
		o := protocol.Order{Order: protocol.OrderDeny, TaskID: t.TaskID, Code: code, Message: "the task is over"}
		if code == protocol.CodeTaken {
			if c.key.who.id == t.HolderID {
				continue
			}
			o.Message, o.RetryAfterMs = "an attempt is running", maxRetryAfter.Milliseconds()
		}
		a.stats.denied.Add(1)
		a.orders = append(a.orders, order{who: c.key.who, Order: o})
	}
}
