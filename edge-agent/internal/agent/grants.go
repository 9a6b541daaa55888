package agent

import (
	"slices"
	"time"

	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/agent/refused"
	"muster/edge-agent/internal/journal"
	"muster/internal/protocol"
)

const (
	// usualLease stands in when a grant names none.
	usualLease = time.Minute
	// UsualLimit bounds an execution when neither grant nor offer says a limit.
	UsualLimit = 10 * time.Minute
	// clockSlack is how far the measured clock of headquarters may be off.
	clockSlack = 5 * time.Second
)

// granted takes a grant. An attempt starts at most once (I3): one that is not
// above the fence is a copy, and only repeats what was said before.
func (a *Agent) granted(o protocol.Order, now time.Time) {
	lease := usualLease
	if o.LeaseMs > 0 {
		lease = protocol.Span(o.LeaseMs)
	}
	if o.Attempt < 1 || !a.current(o, lease, now) {
		a.log.Warn("grant ignored: it is out of date", "task_id", o.TaskID, "attempt", o.Attempt)
		return
	}
	if o.Instance != "" && o.Instance != a.instance {
		a.refused.Add(now, refused.Twin, "task_id", o.TaskID, "attempt", o.Attempt, "instance", o.Instance)
		return
	}
	if o.OfferSHA256 == "" && a.cfg.Identity != nil {
		a.refused.Add(now, refused.Unbound, "task_id", o.TaskID, "attempt", o.Attempt)
		return
	}
	if o.Attempt <= a.fence(o.TaskID) {
		a.repeat(o, now)
		return
	}
	w := a.get(o.TaskID)
	w.claimUntil = time.Time{}
	if w.grant != nil && w.grant.attempt >= o.Attempt {
		return
	}
	w.grant = &grant{attempt: o.Attempt, lease: lease, until: now.Add(lease),
		limit: protocol.Span(o.RunTimeoutMs), offer: o.OfferSHA256}
	switch {
	case w.run != nil: // which answers it, and headquarters waits for a sign of life
		w.run.nextProgress = now
	case a.succeeded(w):
		a.answerStored(w, now)
	}
}

// current reports whether headquarters may still mean the grant: its lease has
// not ended on headquarters' clock. Before the first sync nothing is current;
// the claim that follows a sync gets the grant again.
func (a *Agent) current(o protocol.Order, lease time.Duration, now time.Time) bool {
	if !a.clock.known() {
		return false
	}
	age := protocol.Span(a.clock.nowMs(now) - o.At.UnixMilli())
	if o.At.IsZero() || age <= lease+clockSlack {
		return true
	}
	a.measureAgain(now)
	return false
}

// measureAgain asks for headquarters' clock soon: what looks old may be new, and
// the clock set back. It was not if it was measured a moment ago.
func (a *Agent) measureAgain(now time.Time) {
	if a.up && now.Sub(a.clock.at) > measuredFor {
		a.helloSoon(now)
		return
	}
	if a.up && a.helloAt.After(now.Add(resendFrom)) {
		a.helloAt = now.Add(resendAfter())
	}
}

// repeat answers the copy of a grant: headquarters may have missed what was
// said to the first.
func (a *Agent) repeat(o protocol.Order, now time.Time) {
	w := a.tasks[o.TaskID]
	if w == nil {
		return
	}
	w.claimUntil = time.Time{}
	if w.run != nil && w.run.attempt == o.Attempt {
		w.run.nextProgress = now
	}
	if kept, ok := a.waiting(w); ok && kept.Attempt == o.Attempt && !w.stale {
		w.sendAt = now
	}
}

// startGranted starts what is granted, known and not yet running, in the order
// in which the leases end, while there is a free place. A grant runs the very
// offer that it names, and waits for it while another is held.
func (a *Agent) startGranted(now time.Time) {
	var ready []*work
	for _, w := range a.tasks {
		if w.grant != nil && w.offer != nil && w.run == nil && (w.grant.offer == "" || w.grant.offer == w.hash) {
			ready = append(ready, w)
		}
	}
	slices.SortFunc(ready, func(x, y *work) int { return x.grant.until.Compare(y.grant.until) })
	for _, w := range ready {
		if a.running < a.cfg.MaxParallel {
			a.start(w, now)
		}
	}
}

// start journals the intent, fsynced, and only then starts the execution.
func (a *Agent) start(w *work, now time.Time) {
	g := w.grant
	if g.attempt <= a.fence(w.id) {
		w.grant = nil
		return
	}
	if a.succeeded(w) {
		a.answerStored(w, now)
		return
	}
	if reason := a.refusal(w.offer); reason != "" {
		if a.disk.err != nil && a.later(a.patience(w, now), now) {
			return
		}
		w.grant = nil
		a.keep(w, a.failed(w, g.attempt, protocol.Failure{Code: protocol.CodeRefused, Message: reason}, now), now)
		return
	}
	intent := a.entry(w.id, journal.PhaseGranted, g.attempt)
	intent.StartedAt, intent.OfferSHA256 = a.wall().UnixMilli(), w.hash
	if err := a.write(intent, a.journal.Put); err != nil {
		a.log.Error("attempt not started: the intent cannot be journalled", "task_id", w.id, "attempt", g.attempt, "error", err)
		a.again(now)
		return
	}
	w.grant = nil
	a.execute(w, g, now)
	a.renew(w, now)
}

// cancelled stops an attempt or drops a task. An offer that was made after the
// cancelled attempt is another matter and stays.
func (a *Agent) cancelled(o protocol.Order) {
	w := a.tasks[o.TaskID]
	// Raise the fence, so that a grant still on its way never starts.
	if e, known := a.known(o.TaskID); known && o.Attempt > e.Attempt {
		if err := a.record(o.TaskID, journal.PhaseDropped, o.Attempt); err != nil {
			a.log.Error("cancel cannot be journalled", "task_id", o.TaskID, "error", err)
		}
	}
	if w == nil {
		return
	}
	a.log.Info("task cancelled", "task_id", w.id, "attempt", o.Attempt, "reason", o.Reason)
	covers := func(attempt int) bool { return o.Attempt == 0 || attempt <= o.Attempt }
	if w.run != nil && covers(w.run.attempt) {
		w.run.cancel(ending.ErrCancelled)
	}
	if w.grant != nil && covers(w.grant.attempt) {
		w.grant = nil
	}
	if w.offer != nil && (o.Attempt == 0 || w.offer.Attempt < o.Attempt) {
		w.offer = nil
	}
	w.claimUntil = time.Time{}
	a.dropIdle(w)
}
