package grant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

// takeOver gives an attempt that ran before the start its slot and a full
// lease.
func (a *Admission) takeOver(r *run, running store.Running) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := running.Task
	if a.slots.byTask[t.TaskID] != nil {
		return
	}
	sl := &slot{task: t.TaskID, run: r, holder: terminal{t.StoreID, t.HolderID}, instance: t.Instance,
		started: !running.Attempt.StartedAt.IsZero(), until: a.cfg.Awake().Add(r.Policy.Lease)}
	a.slots.take(sl)
	a.slots.confirm(sl, t)
}

// leaseLoop ends the attempts whose lease ran out.
func (a *Admission) leaseLoop(ctx context.Context) {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.slots.wake:
		case <-due.C:
		}
		due.Stop()
		wait := a.cfg.Ward.Turn("the ends of leases", retryDelay, func() time.Duration { return a.expireAll(ctx) })
		if wait > 0 {
			due.Reset(wait)
		}
	}
}

// expireAll ends what has ended, and tells how long the next lease still runs, 0 when
// none does.
func (a *Admission) expireAll(ctx context.Context) (wait time.Duration) {
	for ctx.Err() == nil {
		var expired []*slot
		if expired, wait = a.takeExpired(a.cfg.Awake()); len(expired) == 0 {
			break
		}
		var all sync.WaitGroup
		sideBySide(&all, expired, func(sl *slot) { a.expire(ctx, sl) })
		all.Wait()
	}
	return wait
}

// takeExpired takes leases that have ended off the clock, and tells how long
// the next one still runs.
func (a *Admission) takeExpired(now time.Time) (expired []*slot, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.slots.leases) > 0 && len(expired) < batchSize {
		sl := a.slots.leases[0]
		if wait = sl.until.Sub(now); wait > 0 {
			return expired, wait
		}
		a.slots.unlease(sl)
		sl.ending = true
		expired = append(expired, sl)
	}
	return expired, 0
}

// expire fails an attempt that was silent for its whole lease. The store moves
// it only if it still runs: an answer that came first stays.
func (a *Admission) expire(ctx context.Context, sl *slot) {
	const what = "the end of the lease"
	var settled store.Settled
	err := a.alone(what, sl.task, sl.holder, func() (err error) {
		now := a.cfg.Now()
		settled, err = a.cfg.Attempts.Settle(ctx, a.expiry(sl, now), now)
		if err != nil && ctx.Err() == nil && !quarantine.Broke(err) {
			a.log.Error("an expired attempt could not be ended; it is tried again", "task_id", sl.task,
				"attempt", sl.attempt, "store_id", sl.holder.store, "error", err)
		}
		return err
	})
	_ = a.alone(what, sl.task, sl.holder, func() error { a.ended(sl, settled, err); return nil })
}

// ended notes what the store made of the end of a lease.
func (a *Admission) ended(sl *slot, settled store.Settled, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		if a.slots.byTask[sl.task] == sl {
			sl.ending = false
			a.slots.lease(sl, a.cfg.Awake().Add(retryDelay))
		}
	case settled.Applied:
		a.stats.expired.Add(1) // the change feed gives the slot back
	default:
		a.slots.giveBack(sl)
		signal(a.admitWake)
	}
}

func (a *Admission) expiry(sl *slot, now time.Time) store.Answer {
	message := "the terminal was silent for longer than its lease"
	if !sl.started {
		message = "the terminal never started the granted attempt"
	}
	answer := store.Answer{
		Attempt: store.Attempt{
			TaskID: sl.task, Attempt: sl.attempt, StoreID: sl.holder.store, TerminalID: sl.holder.id,
			Failure: &protocol.Failure{Code: protocol.CodeLeaseExpired, Message: message},
		},
		Event:  task.GiveUp,
		Reason: task.ReasonLeaseExpired,
	}
	if sl.attempt < sl.attempts {
		answer.Event = task.Fail
		answer.RetryAt = now.Add(sl.run.Policy.RetryDelay(sl.used))
	}
	return answer
}

// HandleProgress takes a sign of life: it renews the lease, and the first one
// marks the start. A terminal that works on what is no longer its own is told
// to stop. The error is the store's.
func (a *Admission) HandleProgress(ctx context.Context, addr protocol.Address, in transport.Inbound) error {
	var m protocol.Progress
	if err := read(in, &m, &m.TaskID); err != nil {
		a.malformed(addr, in, err)
		return nil
	}
	who := terminal{addr.Store, addr.Terminal}
	now := a.cfg.Now()
	length, mine := a.renew(m.TaskID, m.Attempt, who)
	if mine {
		var err error
		mine, err = a.cfg.Attempts.Sign(ctx, store.Sign{TaskID: m.TaskID, Attempt: m.Attempt,
			StoreID: who.store, TerminalID: who.id, LeaseUntil: now.Add(length)}, now)
		if err != nil {
			return fmt.Errorf("cannot renew the lease of task %s attempt %d: %w", m.TaskID, m.Attempt, err)
		}
	}
	if mine {
		return nil
	}
	return a.stopStale(ctx, m.TaskID, m.Attempt, who)
}

// renew lets the lease run anew, before the store is asked: the sign came in
// time even if its commit does not. It returns the length of the lease.
func (a *Admission) renew(taskID string, attempt int, who terminal) (length time.Duration, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sl := a.slots.of(taskID, attempt)
	if sl == nil || sl.holder != who {
		return 0, false
	}
	sl.started, length = true, sl.run.Policy.Lease
	if !sl.kept && !sl.ending {
		a.slots.lease(sl, a.cfg.Awake().Add(length))
	}
	return length, true
}

// stopStale tells a terminal to stop an attempt that headquarters would not
// grant now. One whose lease ended and that awaits a retry may go on: its
// result can answer the next grant.
func (a *Admission) stopStale(ctx context.Context, taskID string, attempt int, who terminal) error {
	t, err := a.cfg.Tasks.GetTask(ctx, taskID)
	unknown := errors.Is(err, store.ErrNotFound)
	if err != nil && !unknown {
		return fmt.Errorf("cannot read task %s for a stale sign of life: %w", taskID, err)
	}
	elsewhere := t.State.Status == task.Running && t.HolderID != who.id
	if unknown || t.StoreID != who.store || t.State.Settled || elsewhere {
		a.tell(ctx, cancelOrder(who, taskID, attempt, "the task is over or runs elsewhere"))
	}
	return nil
}

func cancelOrder(who terminal, taskID string, attempt int, reason string) order {
	return order{who: who, Order: protocol.Order{Order: protocol.OrderCancel, TaskID: taskID, Attempt: attempt, Reason: reason}}
}

// Pause stops the lease of an attempt whose result waits for headquarters to
// take it. It does nothing when the attempt is no longer the running one.
func (a *Admission) Pause(taskID string, attempt int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sl := a.slots.of(taskID, attempt); sl != nil && !sl.ending {
		sl.kept, sl.started = true, true
		a.slots.unlease(sl)
	}
}

// Resume lets a paused lease run anew, with its full length.
func (a *Admission) Resume(taskID string, attempt int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sl := a.slots.of(taskID, attempt); sl != nil && sl.kept {
		sl.kept = false
		a.slots.lease(sl, a.cfg.Awake().Add(sl.run.Policy.Lease))
	}
}
