package agent

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
	"muster/internal/protocol"
)

// quiet is how long an attempt runs before it says that it started: its result tells
// that too, and most attempts end sooner.
const quiet = time.Second

// execution is one that runs.
type execution struct {
	attempt      int
	offer        string // the Hash of what is executed
	began        time.Time
	lease        time.Duration
	nextProgress time.Time
	cancel       context.CancelCauseFunc
}

// execute starts the executor in a goroutine of its own. The caller has
// journalled the intent.
func (a *Agent) execute(w *work, g *grant, now time.Time) {
	limit := UsualLimit
	switch {
	case g.limit > 0:
		limit = g.limit
	case w.offer.RunTimeoutMs > 0:
		limit = protocol.Span(w.offer.RunTimeoutMs)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	w.run = &execution{attempt: g.attempt, offer: w.hash, began: now, lease: g.lease, nextProgress: a.firstProgress(w.offer, g.lease, now), cancel: cancel}
	a.running++
	order := executor.Order{
		TaskID: w.id, Attempt: g.attempt, StoreID: a.cfg.StoreID, TerminalID: a.cfg.TerminalID,
		Type: w.offer.Type, Version: w.offer.TypeVersion, Input: w.offer.Input, ScheduledFor: w.offer.ScheduledFor.Time,
	}
	if order.ScheduledFor.IsZero() {
		order.ScheduledFor = time.UnixMilli(a.clock.nowMs(now))
	}
	job := a.cfg.Jobs[protocol.JobVersion{Type: order.Type, Version: order.Version}]
	a.log.Info("attempt starts", "task_id", w.id, "attempt", g.attempt, "type", order.Type, "limit", limit)
	go func() {
		limited, stop := context.WithTimeoutCause(ctx, limit, ending.ErrTimeLimit)
		answer, cause := Perform(limited, job, order, a.log)
		stop()
		cancel(nil)
		a.post(func(now time.Time) { a.ended(order, answer, cause, now) })
	}()
}

// Perform executes the order and judges its end; both may panic, at what a store's
// files hold. It returns the answer, without its times, and why the execution failed
// if it was ended from outside.
func Perform(ctx context.Context, job executor.Executor, order executor.Order, log *slog.Logger) (answer outbox.Answer, cause error) {
	defer func() {
		if recover() != nil { // with what is not said: it may be a secret, or panic again
			log.Error("execution panicked", "task_id", order.TaskID, "attempt", order.Attempt, "stack", string(debug.Stack()))
			answer, cause = ending.Panicked(order), context.Cause(ctx)
		}
	}()
	output, err := job.Run(ctx, order)
	if err != nil {
		cause = context.Cause(ctx)
	}
	return ending.Judge(order, output, err, cause), cause
}

// firstProgress is when an attempt says that it started: after it was quiet, or at
// once where headquarters would take that for silence, because the lease is short or
// the barrier judges what runs.
func (a *Agent) firstProgress(offer *protocol.Offer, lease time.Duration, now time.Time) time.Time {
	barrier := a.untilServer(offer.Deadline, now)
	if lease < 3*quiet || barrier > 0 && barrier < 2*quiet {
		return now
	}
	return now.Add(quiet)
}

// renew says that an attempt lives: soon after its start and every third of its
// lease, and what could not be said as soon as there is a link.
func (a *Agent) renew(w *work, now time.Time) {
	if w.run == nil || a.later(w.run.nextProgress, now) || !a.up {
		return
	}
	attempt, lease := w.run.attempt, w.run.lease
	if w.grant != nil { // a newer grant will be answered by this very execution
		attempt, lease = w.grant.attempt, w.grant.lease
	}
	said := a.send(protocol.KindProgress, protocol.Progress{Meta: a.cfg.Stamp.Meta(), TaskID: w.id, Attempt: attempt})
	if said && w.grant != nil {
		w.grant.until = now.Add(lease)
	}
	w.run.nextProgress = now.Add(max(lease/3, time.Second))
	a.later(w.run.nextProgress, now)
}

// ended takes the end of an execution in: its answer, and the cause when it was
// ended from outside.
func (a *Agent) ended(order executor.Order, answer outbox.Answer, cause error, now time.Time) {
	a.running--
	w := a.get(order.TaskID)
	run := w.run
	w.run = nil
	if errors.Is(cause, ending.ErrStopping) {
		return // the journal says that it began; the next start answers
	}
	if errors.Is(cause, ending.ErrDropped) {
		a.note(w.id, journal.PhaseDropped, order.Attempt)
		a.dropIdle(w)
		return
	}
	// By one clock, which may have been set meanwhile.
	answer.Frame.FinishedAt = a.wall().UnixMilli()
	answer.Frame.DurationMs = now.Sub(run.began).Milliseconds()
	answer.Frame.StartedAt = max(1, answer.Frame.FinishedAt-answer.Frame.DurationMs)
	answer.Frame.Executed, answer.Frame.OfferSHA256 = true, run.offer
	a.log.Info("attempt ended", "task_id", w.id, "attempt", order.Attempt,
		"outcome", string(answer.Frame.Outcome), "duration", now.Sub(run.began))
	a.keep(w, answer, now)
	if w.grant != nil && answer.Frame.Outcome == protocol.AnswerSucceeded {
		a.answerStored(w, now)
	}
}
