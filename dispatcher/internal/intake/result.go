package intake

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

// arrival is one answer on its way in.
type arrival struct {
	who     terminal
	message protocol.Result
	result  protocol.Document // of the message
	payload []byte
	fault   *fault // set when it is refused whatever it says
	sum     string // see hash
}

// HandleResult takes an answer in: it judges it, commits it with its move, and
// gives the receipt. The same answer again gets the same receipt. An answer
// that cannot be read is counted and logged; if it names its attempt it is
// refused as invalid instead and kept for reading. An answer of a job that is
// not registered gets no receipt, so that its terminal keeps it. One that breaks
// headquarters is handled as survive says. The error is the store's; the answer
// then stays unacknowledged.
func (i *Intake) HandleResult(ctx context.Context, addr protocol.Address, in transport.Inbound) (err error) {
	defer i.survive(ctx, addr, in, &err)
	a := arrival{who: terminal{addr.Store, addr.Terminal}, payload: in.Payload}
	if a.result, err = protocol.DecodeResult(in.Payload, protocol.MaxPayloadBytes, &a.message); err != nil {
		var refusal *protocol.Error
		named := salvage(in.Payload, &a.message)
		if !named || !errors.As(err, &refusal) {
			i.unreadable(addr, in, err)
			return nil
		}
		a.fault = unreadableResult(refusal)
	}
	if !protocol.ValidID(a.message.TaskID) || a.message.Attempt < 1 {
		i.unreadable(addr, in, errors.New("it names no attempt"))
		return nil
	}
	if t, known := i.memory.task(a.message.TaskID); known && a.answers(t) {
		return i.conclude(ctx, a, t)
	}
	t, err := i.cfg.Tasks.GetTask(ctx, a.message.TaskID)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.StoreID != addr.Store {
		i.refuse(ctx, a, store.Task{}, protocol.CodeNotFound)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read task %s for a result: %w", a.message.TaskID, err)
	}
	if !a.answers(t) {
		return i.past(ctx, a, t)
	}
	return i.conclude(ctx, a, t)
}

// answers reports whether it is the answer of a task's running attempt.
func (a *arrival) answers(t store.Task) bool {
	return t.StoreID == a.who.store && t.State.Status == task.Running && t.State.Attempt == a.message.Attempt && t.HolderID == a.who.id
}

// conclude judges the answer of the running attempt and commits it.
func (i *Intake) conclude(ctx context.Context, a arrival, t store.Task) error {
	run, err := i.frozenRun(ctx, t.RunID)
	if err != nil {
		return err
	}
	spec, known := i.cfg.Jobs.Get(t.Type)
	if !known {
		i.stats.unjudged.Add(1)
		if left, due := i.due(a.who, "unjudged"); due {
			i.log.Error("a result cannot be judged; it stays with its terminal until its job is registered again",
				"job", t.Type, "task_id", t.TaskID, "store_id", a.who.store, "left_out", left)
		}
		return nil
	}
	a.hash() // once: the copies of a keep it
	now := i.cfg.Now()
	if tries := i.cfg.Quarantine.Tries(a.key()); tries >= maxTries { // in lives before this one
		return i.setAside(ctx, a, t, tries, "headquarters ended while it judged the answer")
	}
	return i.commit(ctx, a, t, i.judgeNoted(a, t, run, spec, now), now)
}

// commit settles an answer as it was judged, and gives the receipt.
func (i *Intake) commit(ctx context.Context, a arrival, t store.Task, v verdict, now time.Time) error {
	called, paid := i.paid(a) // the change that follows the commit takes the turn back
	v.answer.Known = &t
	settled, err := i.cfg.Attempts.Settle(ctx, v.answer, now)
	if err != nil {
		return fmt.Errorf("cannot take the result of task %s attempt %d: %w", t.TaskID, a.message.Attempt, err)
	}
	switch {
	case settled.Duplicate, settled.Refusal == protocol.CodeStale, settled.Refusal == protocol.CodeSettled:
		return i.past(ctx, a, settled.Task)
	case settled.Refusal == protocol.CodeLate:
		i.charge(a, called, paid)
		i.leaked(ctx, a, t.Type, v.answer.Attempt.Redacted) // it is kept for reading
		return i.late(ctx, a, t)
	case settled.Refusal != "":
		i.refuse(ctx, a, t, settled.Refusal)
		return nil
	}
	i.charge(a, called, paid)
	i.count(a, v)
	i.leaked(ctx, a, t.Type, v.answer.Attempt.Redacted)
	i.receipt(ctx, a, v.fault)
	if settled.Recorded {
		return i.giveUp(ctx, a, t)
	}
	return nil
}

// paid reports whether the answer has its turn now, and for how many bytes of it the
// budget has paid.
func (i *Intake) paid(a arrival) (called bool, bytes int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := upload{a.message.TaskID, a.message.Attempt}
	if e := i.line.entries[u]; e != nil {
		bytes = e.paid
	}
	return i.line.sending[u] != nil, bytes
}

// charge has the budget pay for what came of a committed answer and is not paid for:
// because it was not called for, or is more than was announced. Each attempt is
// charged once, so nobody can hold up the others by what they send.
func (i *Intake) charge(a arrival, called bool, paid int) {
	size := len(a.sent())
	if size <= protocol.InlineLimit {
		return
	}
	if !called {
		i.stats.unasked.Add(1)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tokens.Spend(i.cfg.Awake(), size-paid)
}

// count notes what came.
func (i *Intake) count(a arrival, v verdict) {
	if v.fault != nil {
		i.stats.invalid.Add(1)
		if left, due := i.due(a.who, string(v.fault.code)); due {
			i.log.Warn("a result was refused", "task_id", a.message.TaskID, "attempt", a.message.Attempt,
				"store_id", a.who.store, "terminal_id", a.who.id, "code", string(v.fault.code), "path", v.fault.path,
				"reason", v.fault.message, "left_out", left)
		}
	} else {
		i.stats.accepted.Add(1)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leave(upload{a.message.TaskID, a.message.Attempt})
}

// past answers what comes for an attempt that is over: with the receipt again
// if this very answer is stored, else with why it changes nothing.
func (i *Intake) past(ctx context.Context, a arrival, t store.Task) error {
	i.free(a)
	if a.message.Outcome == protocol.AnswerCancelled && t.State.Status == task.Cancelled {
		i.receipt(ctx, a, nil)
		return nil
	}
	attempts, err := i.cfg.Tasks.ListAttempts(ctx, t.TaskID)
	if err != nil {
		return fmt.Errorf("cannot read the attempts of task %s: %w", t.TaskID, err)
	}
	for _, known := range attempts {
		if known.Attempt == a.message.Attempt && known.TerminalID == a.who.id && !known.ReceivedAt.IsZero() && sameAnswer(known, a) {
			i.stats.duplicate.Add(1)
			i.receipt(ctx, a, faultOf(known))
			return nil
		}
	}
	code := protocol.CodeStale
	if t.State.Settled {
		code = protocol.CodeSettled
	}
	i.refuse(ctx, a, t, code)
	return nil
}

// free gives back the turn that the terminal has for this answer, and lets its lease
// run: nobody knows whether it comes again.
func (i *Intake) free(a arrival) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := upload{a.message.TaskID, a.message.Attempt}
	if e := i.line.entries[u]; e != nil && e.who == a.who {
		i.leave(u)
		i.resume(e)
	}
}

// sameAnswer compares by the hash that the terminal names, and for a payload
// that could not be read by the hash of the whole.
func sameAnswer(known store.Attempt, a arrival) bool {
	return known.SHA256 == a.message.SHA256 || known.SHA256 == a.hash()
}

// late refuses an answer that the run's policy does not take any more, and ends
// the attempt: another one would only be late again.
func (i *Intake) late(ctx context.Context, a arrival, t store.Task) error {
	i.refuse(ctx, a, t, protocol.CodeLate)
	return i.giveUp(ctx, a, t)
}

// giveUp ends an attempt whose answer came too late to move the task.
func (i *Intake) giveUp(ctx context.Context, a arrival, t store.Task) error {
	_, err := i.cfg.Attempts.Settle(ctx, store.Answer{
		Attempt: store.Attempt{TaskID: t.TaskID, Attempt: a.message.Attempt, StoreID: a.who.store, TerminalID: a.who.id,
			Failure: &protocol.Failure{Code: protocol.CodeLate, Message: "the answer came after the barrier"}},
		Event:  task.GiveUp,
		Reason: task.ReasonLeaseExpired,
	}, i.cfg.Now())
	if err != nil {
		return fmt.Errorf("cannot end the late attempt %d of task %s: %w", a.message.Attempt, t.TaskID, err)
	}
	return nil
}

// receipt says that the answer is stored: accepted, or refused for its fault.
func (i *Intake) receipt(ctx context.Context, a arrival, f *fault) {
	accepted := f == nil
	o := protocol.Order{Order: protocol.OrderReceipt, TaskID: a.message.TaskID, Attempt: a.message.Attempt,
		SHA256: named(a.message.SHA256), Accepted: &accepted}
	if f != nil {
		o.Code, o.Message, o.Path = f.code, f.message, f.path
		i.stats.refusals.Add(1)
	} else {
		i.stats.receipts.Add(1)
	}
	i.tell(ctx, a.who, o)
}

// named is the hash by which the terminal knows its answer, as it named it.
// What is no hash may be anything.
func named(sum string) string {
	if isHash(sum) {
		return sum
	}
	return legible([]byte(sum))
}

// refuse gives the receipt of an answer that changes nothing.
func (i *Intake) refuse(ctx context.Context, a arrival, t store.Task, code protocol.Code) {
	f := &fault{code: code}
	switch {
	case code == protocol.CodeNotFound:
		f.message = "headquarters knows no such task of this store"
	case code == protocol.CodeSettled:
		f.message = "the task is over"
	case code == protocol.CodeLate:
		f.message = "it came after the barrier and the job takes no late answers"
	case t.State.Status == task.Running:
		f.message = "another attempt is running; keep the result until the task is over"
	default:
		f.message = "the attempt ended before its answer came; keep the result and claim again"
	}
	i.stats.stale.Add(1)
	i.receipt(ctx, a, f)
}

// unreadable notes a message that names no attempt, so that nobody can be
// answered.
func (i *Intake) unreadable(addr protocol.Address, in transport.Inbound, err error) {
	i.stats.unreadable.Add(1)
	if left, due := i.due(terminal{addr.Store, addr.Terminal}, "unreadable"); due {
		i.log.Warn("a message could not be read", "kind", string(addr.Kind), "store_id", addr.Store,
			"terminal_id", addr.Terminal, "bytes", len(in.Payload), "start", legible(in.Payload),
			"error", legible([]byte(err.Error())), "left_out", left)
	}
}
