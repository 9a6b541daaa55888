package agent

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"muster/edge-agent/internal/journal"
	"muster/internal/protocol"
)

// claim asks for as many tasks as could start now, or, with too many answers
// waiting, for those that a stored result answers: so they get fewer. Whoever has
// waited longest since the last claim comes first, so that one task which waits at
// headquarters does not keep the others from being asked for.
func (a *Agent) claim(now time.Time) {
	if !a.up || !a.synced || len(a.disk.owed) >= maxTasks {
		return
	}
	full := a.noteFull()
	free := a.cfg.MaxParallel - a.running
	var ready []*work
	for _, w := range a.tasks {
		switch {
		case w.grant != nil && w.run == nil, a.later(w.claimUntil, now):
			free--
		case a.claimable(w, now) && (!full || a.succeeded(w)):
			ready = append(ready, w)
		}
	}
	if free <= 0 {
		return
	}
	slices.SortFunc(ready, func(x, y *work) int {
		return cmp.Or(x.lastClaim.Compare(y.lastClaim), cmp.Compare(x.offer.Deadline, y.offer.Deadline), strings.Compare(x.id, y.id))
	})
	for _, w := range ready[:min(free, len(ready))] {
		a.claimOne(w, now)
	}
}

// noteFull reports whether as many answers wait as may, and tells the log when that
// begins and ends.
func (a *Agent) noteFull() bool {
	waiting := a.outbox.Len() + a.volatile()
	full := waiting >= maxAnswers
	if full && !a.full {
		a.log.Warn("too many answers wait for their receipts: no work is claimed until headquarters takes them in", "waiting", waiting, "most", maxAnswers)
	}
	if !full && a.full {
		a.log.Info("answers are taken in again, work is claimed", "waiting", waiting)
	}
	a.full = full
	return full
}

func (a *Agent) claimable(w *work, now time.Time) bool {
	if w.offer == nil || w.run != nil || w.grant != nil {
		return false
	}
	stored, kept := a.waiting(w)
	if kept && !w.stale {
		return false // first let headquarters have the answer
	}
	if a.later(w.nextClaim, now) {
		return false
	}
	if w.offer.NotBefore > 0 && a.later(now.Add(a.untilServer(w.offer.NotBefore, now)), now) {
		return false
	}
	if kept && stored.Outcome == protocol.AnswerSucceeded {
		return true
	}
	if reason := a.refusal(w.offer); reason != "" {
		return !a.later(a.refusalTime(w, now), now)
	}
	return true
}

// refusal says why the terminal cannot do the task, "" when it can.
func (a *Agent) refusal(o *protocol.Offer) string {
	if a.disk.err != nil {
		return fmt.Sprintf("the work folder takes no writes: %v", a.disk.err)
	}
	if _, known := a.cfg.Jobs[protocol.JobVersion{Type: o.Type, Version: o.TypeVersion}]; !known {
		return fmt.Sprintf("this terminal cannot execute %s version %d", o.Type, o.TypeVersion)
	}
	for _, need := range o.Requires {
		key, value, valued := strings.Cut(need, "=")
		if have, ok := a.cfg.Labels[key]; !ok || (valued && have != value) {
			return "this terminal lacks " + need
		}
	}
	if a.cfg.Refuse == (Refuse{}) {
		return ""
	}
	return a.cfg.Refuse.forbid(a.cfg.Measure())
}

func (r Refuse) forbid(c protocol.Condition) string {
	switch {
	case r.MinBatteryPct > 0 && c.BatteryPct != nil && *c.BatteryPct < r.MinBatteryPct:
		return fmt.Sprintf("the battery is at %.0f %%; %.0f %% is the least", *c.BatteryPct, r.MinBatteryPct)
	case r.MaxLoad > 0 && c.Load != nil && *c.Load > r.MaxLoad:
		return fmt.Sprintf("the load is %.2f a core; %.2f is the most", *c.Load, r.MaxLoad)
	case r.MinDiskFreeMB > 0 && c.DiskFreeMB != nil && *c.DiskFreeMB < r.MinDiskFreeMB:
		return fmt.Sprintf("%d MB of disk are free; %d MB is the least", *c.DiskFreeMB, r.MinDiskFreeMB)
	}
	return ""
}

// refusalTime is when a task that cannot be done is claimed all the same, to be
// refused aloud rather than time out in silence: after a quarter of the time to
// the barrier, within 1 to 30 s, so that another terminal of the store may take
// it first and a passing condition may pass.
func (a *Agent) refusalTime(w *work, now time.Time) time.Time {
	if w.refuseFrom.IsZero() {
		left := a.untilServer(w.offer.Deadline, now)
		w.refuseFrom = now.Add(min(max(left/4, time.Second), 30*time.Second))
	}
	return w.refuseFrom
}

// claimOne journals the claim before it sends it: a grant that is lost on its
// way may then be asked for again without fear that it ran. While the disk takes
// no writes a task is claimed only to be refused.
func (a *Agent) claimOne(w *work, now time.Time) {
	message := protocol.Claim{Meta: a.cfg.Stamp.Meta(), TaskID: w.id, Condition: a.cfg.Measure(), Instance: a.instance}
	e, _ := a.known(w.id)
	if e.Phase == journal.PhaseClaimed && e.Instance != a.instance {
		w.claimedBy = e.Instance
	}
	message.Previous = w.claimedBy
	troubled := a.disk.err != nil
	stored, kept := a.waiting(w)
	switch {
	case kept && stored.Outcome == protocol.AnswerSucceeded:
		message.StoredAttempt = stored.Attempt
	case e.Phase != journal.PhaseClaimed || e.Instance != a.instance:
		if err := a.record(w.id, journal.PhaseClaimed, e.Attempt); err != nil && !troubled {
			a.log.Error("claim not sent: it cannot be journalled", "task_id", w.id, "error", err)
			a.again(now)
			return
		}
	}
	if !a.send(protocol.KindClaim, message) {
		w.nextClaim = now.Add(time.Second) // the link is congested or going down
		a.later(w.nextClaim, now)
		return
	}
	w.lastClaim = now
	w.claimUntil = now.Add(resendAfter())
	a.later(w.claimUntil, now)
}

// denied takes headquarters' no to a claim. A task that runs or has an answer
// to send is not touched by it.
func (a *Agent) denied(o protocol.Order, now time.Time) {
	w := a.tasks[o.TaskID]
	if w == nil || w.run != nil || w.grant != nil {
		return
	}
	w.claimUntil = time.Time{}
	a.log.Info("claim denied", "task_id", w.id, "code", string(o.Code), "retry_after_ms", o.RetryAfterMs)
	if o.Code == protocol.CodeSettled || o.Code == protocol.CodeNotFound {
		w.offer = nil
		a.dropStale(w)
		a.dropIdle(w)
		return
	}
	wait := resendAfter()
	if o.RetryAfterMs > 0 {
		wait = time.Duration(min(o.RetryAfterMs, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
		wait += rand.N(wait/4 + time.Millisecond)
	}
	w.nextClaim = now.Add(wait)
}
