package offer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

const (
	// retryFirst and retryMost bound the pause after a failed publish: soon
	// enough that a reconnect is not noticed, rare enough that a broker that
	// is down is not hammered.
	retryFirst = 250 * time.Millisecond
	retryMost  = 15 * time.Second
)

// work publishes one lane's topics until ctx ends. What fails goes to the end
// of the lane, so that one topic that never works does not hold up the others.
func (o *Offers) work(ctx context.Context, l *lane) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(retryFirst),
		backoff.WithMaxInterval(retryMost), backoff.WithMaxElapsedTime(0))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		w := l.take()
		if w == nil {
			select {
			case <-ctx.Done():
			case <-l.wake:
			}
			continue
		}
		err := o.cfg.Ward.Do(quarantine.AlarmStep, "the offer of task "+w.task+" of store "+w.store, func() error { return o.publish(ctx, w) })
		if w.holds {
			<-o.room
		}
		w.wave.dealt()
		var panicked *quarantine.Panic
		if errors.As(err, &panicked) { // the broker is well
			time.AfterFunc(retryMost, func() { l.mark(w.store, w.task, w.settled) })
			continue
		}
		if err == nil {
			l.setDown(false)
			pause.Reset()
			continue
		}
		l.mark(w.store, w.task, w.settled)
		l.setDown(true)
		wait := pause.NextBackOff()
		if ctx.Err() == nil {
			o.log.Warn("an offer could not be published or withdrawn; it is tried again", "task_id", w.task,
				"store_id", w.store, "retry_ms", wait.Milliseconds(), "error", err)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// publish brings one topic up to date.
func (o *Offers) publish(ctx context.Context, w *work) error {
	if w.made == nil && !o.wanted(w.store, w.task) { // who made it has asked
		return nil
	}
	if w.made == nil || o.cfg.Wanted == nil { // else nothing waits for anything
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, publishTimeout)
		defer cancel()
	}
	out, open, err := o.say(ctx, w)
	if err != nil {
		return err
	}
	if !open {
		out = transport.Outbound{Topic: o.cfg.Sender.Topics().Offer(w.store, w.task), Retain: true, Soon: true}
	}
	return o.cfg.Sender.Send(ctx, out)
}

// say makes the offer, unless there is none: open is false then.
func (o *Offers) say(ctx context.Context, w *work) (out transport.Outbound, open bool, err error) {
	t, open, err := o.look(ctx, w)
	if err != nil {
		return out, false, err
	}
	kept := t.QueueDeadline.Sub(o.cfg.Now())
	if !open || kept <= 0 {
		return out, false, nil
	}
	if w.made != nil {
		out = *w.made
	} else {
		r, err := o.run(ctx, t.RunID)
		if err != nil {
			return out, false, err
		}
		if out, err = o.frame(t, r); err != nil {
			return out, false, err
		}
	}
	out.Expiry = max(kept, time.Second)
	return out, true, nil
}

// frame makes the offer of an open task. It does not say until when it is kept.
func (o *Offers) frame(t store.Task, r *run) (transport.Outbound, error) {
	return o.cfg.Sender.Frame(o.cfg.Sender.Topics().Offer(t.StoreID, t.TaskID), o.message(t, r), transport.Options{Retain: true})
}

// wanted reports whether anybody is to hear of a topic: whoever subscribes to it
// from now on asks.
func (o *Offers) wanted(storeID, taskID string) bool {
	return o.cfg.Wanted == nil || o.cfg.Wanted(o.cfg.Sender.Topics().Offer(storeID, taskID))
}

// look returns the task as it is now, and whether it is open.
func (o *Offers) look(ctx context.Context, w *work) (t store.Task, open bool, err error) {
	switch {
	case w.settled:
		return store.Task{}, false, nil
	case w.listed != nil:
		return *w.listed, true, nil
	}
	t, err = o.cfg.Tasks.GetTask(ctx, w.task)
	if errors.Is(err, store.ErrNotFound) {
		return store.Task{}, false, nil
	}
	if err != nil {
		return store.Task{}, false, fmt.Errorf("cannot read task %s to offer it: %w", w.task, err)
	}
	return t, !t.State.Settled, nil
}

func (o *Offers) message(t store.Task, r *run) protocol.Offer {
	m := r.offers.Of(t)
	m.Meta = o.cfg.Sender.Meta()
	m.Status, m.Attempt, m.Deadline = t.State.Status, t.State.Attempt, t.Deadline.UnixMilli()
	m.TerminalID, m.Attempts = t.TerminalID, t.Allowed()
	m.RunTimeoutMs, m.QueueDeadline = r.Policy.RunTimeout.Milliseconds(), t.QueueDeadline.UnixMilli()
	m.ID = transport.OfferID(t.TaskID, t.Used(), t.CreatedAt)
	if t.LastCode != "" {
		m.Error = &protocol.Failure{Code: t.LastCode, Message: "the last attempt failed"}
	}
	if !t.NextAttemptAt.IsZero() {
		m.NotBefore = t.NextAttemptAt.UnixMilli()
	}
	return m
}

// run returns a run, reading it once.
func (o *Offers) run(ctx context.Context, runID string) (*run, error) {
	o.mu.Lock()
	known := o.runs[runID]
	o.mu.Unlock()
	if known != nil {
		return known, nil
	}
	stored, err := o.cfg.Tasks.GetRun(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("cannot read run %s to offer its tasks: %w", runID, err)
	}
	known = newRun(stored)
	o.remember(known)
	return known, nil
}

func (o *Offers) remember(r *run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.runs) >= maxRuns {
		clear(o.runs)
	}
	o.runs[r.RunID] = r
}

func (o *Offers) forget(runID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.runs, runID)
}
