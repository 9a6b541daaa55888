package grant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// minRetryAfter and maxRetryAfter bound what a denied terminal is told to
	// wait: not to be asked in a loop, and not to be forgotten.
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
	// maxResent bounds how often a lost grant that is said again also gets a
	// new first lease: a terminal that never starts must not hold its slot.
	maxResent = 3
	// rereads bounds how often a task is read again because it moved between
	// the read and the queue.
	rereads = 3
	// maxKnown bounds how many waiting claims keep their task as it was read, half a
	// KiB each; those of others are read again when their turn has come.
	maxKnown = 16_384
)

// HandleClaim takes a terminal's claim: it is answered at once when there is
// nothing to wait for, and waits for a slot and a token otherwise. A claim that
// cannot be read is counted and dropped. The error is the store's; the claim
// then stays unacknowledged.
func (a *Admission) HandleClaim(ctx context.Context, addr protocol.Address, in transport.Inbound) error {
	var m protocol.Claim
	if err := read(in, &m, &m.TaskID); err != nil {
		a.malformed(addr, in, err)
		return nil
	}
	who := terminal{addr.Store, addr.Terminal}
	by := asker{who: who, instance: m.Instance, previous: m.Previous}
	for range rereads {
		now := a.cfg.Now()
		t, err := a.cfg.Tasks.GetTask(ctx, m.TaskID)
		if errors.Is(err, store.ErrNotFound) {
			a.deny(ctx, a.refuse(store.Task{TaskID: m.TaskID}, protocol.CodeNotFound, by, now))
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read task %s for a claim: %w", m.TaskID, err)
		}
		if code := judge(t, who, now); code != "" {
			a.deny(ctx, a.refuse(t, code, by, now))
			return nil
		}
		r, err := a.run(ctx, t.RunID)
		if err != nil {
			return err
		}
		if a.enqueue(r, t, by) {
			return nil
		}
	}
	return nil // it moves faster than it can be read; the terminal claims again
}

// asker is who claims: a process of a terminal, and the process whose work it
// took up. Both are "" where they are not known.
type asker struct {
	who                terminal
	instance, previous string
}

// read decodes a message that names a task.
func read(in transport.Inbound, dst any, taskID *string) error {
	if in.Retained {
		return errors.New("the message is retained, so nobody may be asking any more")
	}
	if err := protocol.Decode(in.Payload, maxClaimBytes, dst); err != nil {
		return err
	}
	if !protocol.ValidID(*taskID) {
		return errors.New("it names no task")
	}
	return nil
}

// malformed counts a message that cannot be read; its sender repeats what
// matters.
func (a *Admission) malformed(addr protocol.Address, in transport.Inbound, err error) {
	a.stats.malformed.Add(1)
	if left, due := a.due(terminal{addr.Store, addr.Terminal}, "malformed"); due {
		a.log.Warn("a message could not be read", "kind", string(addr.Kind), "store_id", addr.Store,
			"terminal_id", addr.Terminal, "bytes", len(in.Payload), "error", err, "left_out", left)
	}
}

// judge says why a claim cannot be granted or wait, or "".
func judge(t store.Task, who terminal, now time.Time) protocol.Code {
	switch {
	case t.StoreID != who.store, t.TerminalID != "" && t.TerminalID != who.id:
		return protocol.CodeNotFound
	case t.State.Settled:
		return protocol.CodeSettled
	case t.State.Status == task.Running:
		return protocol.CodeTaken
	case !t.QueueDeadline.IsZero() && !now.Before(t.QueueDeadline):
		return protocol.CodeSettled
	case now.Before(t.NextAttemptAt):
		return protocol.CodeNotYet
	}
	return ""
}

// enqueue lets a claim wait. It returns false when the task moved since it was
// read.
func (a *Admission) enqueue(r *run, t store.Task, by asker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sl := a.slots.byTask[t.TaskID]; sl != nil && sl.attempt > t.State.Attempt {
		return false
	}
	c, fresh := a.queue.ask(claimKey{t.TaskID, by.who}, by.instance, r, time.Now())
	if c.known = nil; len(a.queue.claims) <= maxKnown {
		c.known = &t
	}
	if fresh {
		c.noted = !t.ClaimedAt.IsZero()
		a.fresh[r] = append(a.fresh[r], c)
		signal(a.admitWake)
	}
	return true
}

// refuse makes the answer to a claim that is not granted. For a task that the
// terminal itself runs, that is the lost grant again.
func (a *Admission) refuse(t store.Task, code protocol.Code, by asker, now time.Time) order {
	o := protocol.Order{Order: protocol.OrderDeny, TaskID: t.TaskID, Code: code}
	var wait time.Duration
	var over bool
	switch code {
	case protocol.CodeNotFound:
		o.Message = "headquarters knows no such task for this terminal"
		over = t.StoreID != by.who.store // else it is for another terminal of the store
	case protocol.CodeSettled:
		o.Message = "the task is over"
		over = true
	case protocol.CodeNotYet:
		o.Message = "the next attempt is not due yet"
		wait = t.NextAttemptAt.Sub(now)
	default:
		var lost *order
		if lost, wait = a.lostGrant(t, by); lost != nil {
			return *lost
		}
		o.Message = "an attempt is running"
	}
	if wait > 0 || code == protocol.CodeTaken || code == protocol.CodeNotYet {
		o.RetryAfterMs = min(max(wait, minRetryAfter), maxRetryAfter).Milliseconds()
	}
	return order{who: by.who, over: over, Order: o}
}

// lostGrant returns the grant of a task's running attempt again, if it belongs
// to this terminal and has not started: an attempt starts at most once, so one
// that was seen alive is never granted twice. It also returns how long the
// lease still runs.
func (a *Admission) lostGrant(t store.Task, by asker) (*order, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Awake()
	sl := a.slots.of(t.TaskID, t.State.Attempt)
	if sl == nil {
		return nil, 0
	}
	left := sl.until.Sub(now)
	if sl.holder != by.who || sl.started || sl.ending || !sl.takenUp(by) {
		return nil, left
	}
	if sl.resent < maxResent {
		sl.resent++
		a.slots.lease(sl, now.Add(firstLease(sl.run)))
	}
	a.stats.resent.Add(1)
	t.Instance = sl.instance
	o := grantOrder(sl.run, t, by.who)
	return &o, left
}

// deny answers a claim; the offer that the terminal still saw of what the store has
// no open task for is cleared again.
func (a *Admission) deny(ctx context.Context, o order) {
	a.tell(ctx, o)
	if o.Code == "" {
		return
	}
	a.stats.denied.Add(1)
	if !o.over {
		return
	}
	if err := a.cfg.Orders.ClearOffer(ctx, o.who.store, o.TaskID); err != nil {
		if left, due := a.due(o.who, "uncleared"); due {
			a.log.Warn("an offer could not be cleared", "task_id", o.TaskID, "store_id", o.who.store, "error", err, "left_out", left)
		}
	}
}

// Offline drops the waiting claims of a terminal: who is away must not take a
// slot. It asks again when it is back.
func (a *Admission) Offline(storeID, terminalID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue.dropTerminal(terminal{storeID, terminalID})
}
