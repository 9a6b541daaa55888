package intake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

const (
	// answerTimeout bounds the silence after an order to send: a terminal says
	// at once that it begins, and one that is stuck must not hold a slot for as
	// long as an upload over a slow link may take.
	answerTimeout = 10 * time.Second
	// slowestLink, in bytes a second, is the link that an upload's time is
	// reckoned for: a GPRS modem on a bad day. Terminals reckon the same.
	slowestLink = 4 << 10
	// sendTimeout is what one upload gets beside the time of its bytes: for the
	// message around them, TLS, and what else is on its way over the same link.
	sendTimeout = 30 * time.Second
	// passAgain is the pause after a panic before turns are given again.
	passAgain = 5 * time.Second
	// maxReadyBytes bounds an announcement, which is a few hundred bytes.
	maxReadyBytes = 16 << 10
)

// collect calls for results whenever something changed, the next tokens are
// due, or an upload is overdue.
func (i *Intake) collect(ctx context.Context) {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.wake:
		case <-due.C:
		}
		due.Stop()
		wait := i.cfg.Ward.Turn("the turns of results", passAgain, func() time.Duration {
			calls, wait := i.pass(i.cfg.Awake())
			for _, e := range calls {
				if i.alone(e, func() error { i.call(ctx, e.who, e.upload); return nil }) != nil {
					i.yield(e)
				}
			}
			return wait
		})
		if wait > 0 {
			due.Reset(wait)
		}
	}
}

func (i *Intake) call(ctx context.Context, who terminal, u upload) {
	i.tell(ctx, who, protocol.Order{Order: protocol.OrderSend, TaskID: u.task, Attempt: u.attempt})
}

// alone does what is about one announced result: if it panics, that is told, and
// all else goes on.
func (i *Intake) alone(e *announced, do func() error) error {
	return i.cfg.Ward.Do(quarantine.AlarmStep, "the turn of task "+e.task+", terminal "+e.who.store+"/"+e.who.id, do)
}

// yield takes the turn of a result back that could not be called for. Its terminal
// may announce it again.
func (i *Intake) yield(e *announced) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.line.remove(e.upload)
	i.resume(e)
	i.signal()
}

func (i *Intake) resume(e *announced) {
	_ = i.alone(e, func() error { i.cfg.Leases.Resume(e.task, e.attempt); return nil })
}

// pass takes the slots of overdue uploads back and gives free ones to those
// whose turn it is. It returns whom to call, and how long until there is
// something to do again.
func (i *Intake) pass(now time.Time) (calls []*announced, wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	late, _ := i.line.overdue(now)
	for _, e := range late {
		i.stats.timedOut.Add(1)
		i.resume(e)
		if left, due := i.due(e.who, "late"); due {
			i.log.Warn("a result did not come in time; its terminal may announce it again", "task_id", e.task,
				"attempt", e.attempt, "store_id", e.who.store, "terminal_id", e.who.id, "left_out", left)
		}
	}
	for len(i.line.sending) < i.cfg.InFlight {
		e := i.line.first()
		if e == nil {
			break
		}
		if wait = i.pay(e, now); wait > 0 {
			break
		}
		i.line.call(e, now.Add(answerTimeout))
		calls = append(calls, e)
	}
	_, overdue := i.line.overdue(now)
	return calls, sooner(wait, overdue)
}

// sendTime is what one upload may take, 94 s at most. Until then its slot is taken:
// one that is given up while its bytes still come would be an upload too many.
func sendTime(bytes int) time.Duration {
	return sendTimeout + time.Duration(bytes)*time.Second/slowestLink
}

// Heard takes a sign of life of a terminal: what it was called for is on its
// way. It returns at once.
func (i *Intake) Heard(storeID, terminalID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.line.hear(terminal{storeID, terminalID}, i.cfg.Awake()) {
		i.signal()
	}
}

// pay takes the tokens for a result's bytes, the slot being free. A result
// larger than the bucket saves up for it bucket by bucket: it waits longer, but
// neither for ever nor at the cost of the rate. pay returns how long the next
// tokens take, 0 when all is paid.
func (i *Intake) pay(e *announced, now time.Time) time.Duration {
	for e.paid < e.bytes {
		part := min(e.bytes-e.paid, i.tokens.Burst())
		if wait := i.tokens.Due(now, part); wait > 0 {
			return wait
		}
		i.tokens.Take(now, part)
		e.paid += part
	}
	return 0
}

// HandleReady takes the announcement of a result over the inline limit: its
// terminal waits for its turn and its lease stands still meanwhile. One that
// headquarters would not take is answered with the receipt at once. The error
// is the store's.
func (i *Intake) HandleReady(ctx context.Context, addr protocol.Address, in transport.Inbound) (err error) {
	defer i.survive(ctx, addr, in, &err)
	var m protocol.Ready
	if err := readReady(in, &m); err != nil {
		i.unreadable(addr, in, err)
		return nil
	}
	who, now := terminal{addr.Store, addr.Terminal}, i.cfg.Now()
	a := arrival{who: who, message: protocol.Result{TaskID: m.TaskID, Attempt: m.Attempt, SHA256: m.SHA256,
		Outcome: protocol.AnswerSucceeded}}
	t, err := i.cfg.Tasks.GetTask(ctx, m.TaskID)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.StoreID != who.store {
		i.refuse(ctx, a, store.Task{}, protocol.CodeNotFound)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read task %s for an announced result: %w", m.TaskID, err)
	}
	run, err := i.frozenRun(ctx, t.RunID)
	if err != nil {
		return err
	}
	if m.Bytes > protocol.MaxResultBytes {
		a.fault = tooLarge(m.Bytes)
		return i.conclude(ctx, a, t)
	}
	mine, err := i.cfg.Attempts.Sign(ctx, store.Sign{TaskID: m.TaskID, Attempt: m.Attempt, StoreID: who.store,
		TerminalID: who.id, LeaseUntil: now.Add(run.policy.Lease), ReadyBytes: m.Bytes, SHA256: m.SHA256}, now)
	if err != nil {
		return fmt.Errorf("cannot note the announced result of task %s attempt %d: %w", m.TaskID, m.Attempt, err)
	}
	if !mine {
		return i.past(ctx, a, t)
	}
	late, err := i.isLate(ctx, t.RunID, run.policy)
	if err != nil {
		return err
	}
	if late {
		return i.late(ctx, a, t)
	}
	i.enqueue(ctx, upload{m.TaskID, m.Attempt}, who, int(m.Bytes), run.policy.Priority)
	return nil
}

// isLate reports whether the run takes no answers any more. Its barrier is asked for
// anew each time.
func (i *Intake) isLate(ctx context.Context, runID string, p job.Policy) (bool, error) {
	if p.Late != job.Reject {
		return false, nil
	}
	run, err := i.cfg.Tasks.GetRun(ctx, runID)
	if err != nil {
		return false, fmt.Errorf("cannot read run %s for an announced result: %w", runID, err)
	}
	return !run.BarrierClosedAt.IsZero(), nil
}

func readReady(in transport.Inbound, m *protocol.Ready) error {
	if in.Retained {
		return errors.New("the message is retained, so nobody may be waiting any more")
	}
	if err := protocol.Decode(in.Payload, maxReadyBytes, m); err != nil {
		return err
	}
	if !protocol.ValidID(m.TaskID) || m.Attempt < 1 || m.Bytes < 1 {
		return errors.New("it names no attempt or no bytes")
	}
	if !isHash(m.SHA256) {
		return errors.New("sha256 is no SHA-256 in hex")
	}
	return nil
}

func (i *Intake) enqueue(ctx context.Context, u upload, who terminal, bytes, priority int) {
	if i.announce(u, who, bytes, priority) {
		i.call(ctx, who, u) // the order was lost
	}
}

func (i *Intake) announce(u upload, who terminal, bytes, priority int) (called bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cfg.Leases.Pause(u.task, u.attempt)
	called = i.line.announce(u, who, bytes, priority)
	i.signal()
	return called
}

// Offline takes the turn of a terminal that went away back, and lets its leases
// run: one that stays away for a whole lease has lost its attempt. When it
// announces again it is at its old place.
func (i *Intake) Offline(storeID, terminalID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range i.line.offline(terminal{storeID, terminalID}) {
		i.resume(e)
	}
	i.signal()
}
