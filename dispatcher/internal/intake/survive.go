package intake

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

// AlarmQuarantined is the kind of the alarm that headquarters broke on one answer too
// often and gave it up.
const AlarmQuarantined = "result_quarantined"

// maxTries is how often headquarters may break on one answer. Once may be
// chance; three times it is the answer. Terminals send again after 15 to 30 s,
// so that it is over within the usual barrier of 120 s.
const maxTries = 3

// key names the answer as its receipt does.
func (a *arrival) key() quarantine.Answer {
	k := quarantine.Answer{StoreID: a.who.store, TerminalID: a.who.id, TaskID: a.message.TaskID, Attempt: a.message.Attempt, SHA256: a.message.SHA256}
	if !isHash(k.SHA256) {
		k.SHA256 = a.hash()
	}
	return k
}

// judgeNoted is judge with a note that outlives the process.
func (i *Intake) judgeNoted(a arrival, t store.Task, run frozen, spec job.Spec, now time.Time) verdict {
	done := i.cfg.Quarantine.Judging(a.key())
	defer done()
	return i.judge(a, t, run, spec, now)
}

// survive is deferred around the taking in of a message. One that makes
// headquarters panic, or whose write breaks by itself, is acknowledged and not
// taken in: its terminal, which gets no receipt, sends it again at its own pace.
// At the last try the answer is kept aside and its attempt ended.
func (i *Intake) survive(ctx context.Context, addr protocol.Address, in transport.Inbound, err *error) {
	cause := recover()
	if cause == nil && errors.Is(*err, store.ErrBroken) {
		cause = *err
	}
	if cause == nil {
		return
	}
	*err = nil
	i.stats.broke.Add(1)
	a := arrival{who: terminal{addr.Store, addr.Terminal}, payload: in.Payload}
	tries := 0
	if salvage(in.Payload, &a.message) {
		tries = i.cfg.Quarantine.Broke(a.key())
		i.free(a)
	}
	reason := legible(fmt.Append(nil, cause))
	if left, due := i.due(a.who, "broke"); due {
		i.log.Error("a message broke headquarters; it is not taken in", "kind", string(addr.Kind), "store_id", addr.Store,
			"terminal_id", addr.Terminal, "task_id", a.message.TaskID, "attempt", a.message.Attempt, "try", tries,
			"cause", reason, "stack", string(debug.Stack()), "left_out", left)
		i.alarm(quarantine.AlarmPanicked, a.who, fmt.Errorf("a %s of task %s, attempt %d: %s", addr.Kind, a.message.TaskID, a.message.Attempt, reason))
	}
	if tries >= maxTries {
		*err = i.giveUpOn(ctx, a, tries, reason)
	}
}

// giveUpOn sets the answer aside if it is still waited for.
func (i *Intake) giveUpOn(ctx context.Context, a arrival, tries int, reason string) error {
	t, err := i.cfg.Tasks.GetTask(ctx, a.message.TaskID)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.StoreID != a.who.store {
		i.refuse(ctx, a, store.Task{}, protocol.CodeNotFound)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read task %s for an answer that broke headquarters: %w", a.message.TaskID, err)
	}
	if t.State.Status != task.Running || t.State.Attempt != a.message.Attempt || t.HolderID != a.who.id {
		return i.past(ctx, a, t)
	}
	return i.setAside(ctx, a, t, tries, reason)
}

// setAside keeps the answer for reading, and ends its attempt, and with it the
// task: another attempt would bring the same. It is not looked into any more.
func (i *Intake) setAside(ctx context.Context, a arrival, t store.Task, tries int, reason string) error {
	now := i.cfg.Now()
	name, err := i.cfg.Quarantine.Keep(a.key(), readable(a.payload), now)
	kept, place := "it is kept at headquarters as "+filepath.Base(name), name
	if err != nil {
		i.log.Error("an answer that broke headquarters cannot be kept", "task_id", t.TaskID, "error", err)
		kept, place = "it could not be kept", "nowhere: "+err.Error()
	}
	f := &fault{protocol.CodeInvalidResult, "", fmt.Sprintf("headquarters failed on this answer %d times and does not read it again; %s", tries, kept)}
	answer := store.Answer{
		Attempt: store.Attempt{TaskID: t.TaskID, Attempt: a.message.Attempt, StoreID: a.who.store, TerminalID: a.who.id,
			Answer: protocol.AnswerSucceeded, Executed: a.message.Executed, SHA256: a.key().SHA256,
			Failure: &protocol.Failure{Code: f.code, Message: f.message}},
		Event: task.GiveUp, Reason: task.ReasonInvalidResult,
	}
	if a.message.Outcome == protocol.AnswerFailed {
		answer.Attempt.Answer = protocol.AnswerFailed
	}
	err = i.commit(ctx, a, t, verdict{answer, f}, now)
	if err != nil && !errors.Is(err, store.ErrBroken) {
		return err
	}
	i.stats.quarantined.Add(1)
	i.alarm(AlarmQuarantined, a.who, fmt.Errorf("task %s, attempt %d of store %s: headquarters failed on its answer %d times (%s); the message is kept in %s",
		t.TaskID, a.message.Attempt, a.who.store, tries, reason, place))
	if err != nil {
		i.log.Error("an answer that broke headquarters cannot be given up", "task_id", t.TaskID, "error", err)
	}
	return nil
}

func (i *Intake) alarm(kind string, who terminal, trouble error) {
	if i.cfg.Alarm != nil {
		i.cfg.Alarm(kind, who.store+"/"+who.id, trouble)
	}
}

// readable is the message without secrets; as it came if that very step is what
// breaks, since nobody could mend what cannot be seen.
func readable(payload []byte) (clean []byte) {
	defer func() {
		if recover() != nil {
			clean = payload
		}
	}()
	return (&cleaner{}).document(payload)
}
