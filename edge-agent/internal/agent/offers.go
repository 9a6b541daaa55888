package agent

import (
	"time"

	"muster/edge-agent/internal/agent/refused"
	"muster/edge-agent/internal/journal"
	"muster/internal/protocol"
)

// offered takes an offer in. Copies change nothing; of two that differ the one
// of the higher attempt counts, whichever came first.
func (a *Agent) offered(o *protocol.Offer, now time.Time) {
	w := a.tasks[o.TaskID]
	if o.TerminalID != "" && o.TerminalID != a.cfg.TerminalID {
		if w != nil {
			a.withdraw(o.TaskID)
		}
		return
	}
	if w == nil && len(a.tasks) >= maxTasks {
		a.log.Warn("offer not held: too many are open", "task_id", o.TaskID, "held", len(a.tasks))
		return
	}
	w = a.get(o.TaskID)
	if w.offer != nil && o.Attempt < w.offer.Attempt {
		return
	}
	hash := o.Hash()
	a.nothingDue = isCopy(w.offer, o) && hash == w.hash
	if w.offer == nil || o.Attempt > w.offer.Attempt || o.NotBefore != w.offer.NotBefore {
		w.nextClaim, w.refuseFrom = time.Time{}, time.Time{}
	}
	w.offer, w.offerAt, w.hash = o, now, hash
	if _, known := a.known(o.TaskID); !known {
		a.note(o.TaskID, journal.PhaseOffered, 0)
	}
}

// isCopy tells that an offer says nothing that could make something due.
func isCopy(have, got *protocol.Offer) bool {
	return have != nil && have.Attempt == got.Attempt && have.NotBefore == got.NotBefore &&
		have.Deadline == got.Deadline && have.QueueDeadline == got.QueueDeadline
}

// withdraw forgets an offer. What runs goes on until a cancel or a sync, since
// an offer is also cleared when its result has just come in; what is kept to be
// sent is kept.
func (a *Agent) withdraw(taskID string) {
	w := a.tasks[taskID]
	if w == nil {
		return
	}
	w.offer = nil
	if w.run == nil {
		w.grant = nil
	}
	a.dropIdle(w)
}

// expire drops an offer whose time to be claimed is over, and a grant whose
// lease ended before it could start. Of an offer that came after headquarters'
// clock was measured, or long after, only a new measure says that it is over.
func (a *Agent) expire(w *work, now time.Time) {
	a.conflict(w, now)
	if w.grant != nil && !a.later(w.grant.until, now) {
		a.log.Warn("grant not started within its lease", "task_id", w.id, "attempt", w.grant.attempt)
		w.grant = nil
		a.dropIdle(w)
	}
	if w.offer == nil || w.offer.QueueDeadline == 0 || !a.clock.known() {
		return
	}
	if a.later(now.Add(a.untilServer(w.offer.QueueDeadline, now)), now) || w.run != nil || w.grant != nil {
		return
	}
	if a.up && (w.offerAt.After(a.clock.at) || now.Sub(a.clock.at) > measuredFor) {
		if a.unanswered == 0 {
			a.helloSoon(now) // headquarters' clock may be set back since
		}
		return
	}
	a.log.Info("offer expired", "task_id", w.id)
	w.offer = nil
	a.dropIdle(w)
}

// conflictWait is how long a grant waits for the offer that it names while another
// is held in its place: the right one may be on its way. It is less than
// headquarters waits for a sign of the start.
const conflictWait = 10 * time.Second

// conflict refuses aloud a grant whose offer is not the one that is held: somebody
// put other content under the task's name, or headquarters was restored. The
// answer names what is held, so that headquarters sees it.
func (a *Agent) conflict(w *work, now time.Time) {
	g := w.grant
	if g == nil || w.run != nil || w.offer == nil || g.offer == "" || g.offer == w.hash || a.later(g.until.Add(conflictWait-g.lease), now) {
		return
	}
	a.refused.Add(now, refused.Conflict, "task_id", w.id, "attempt", g.attempt, "held", w.hash, "granted", g.offer)
	w.grant = nil
	a.keep(w, a.failed(w, g.attempt, protocol.Failure{Code: protocol.CodeRefused,
		Message: "another offer lies under the name of this task than headquarters granted"}, now), now)
}

// dropIdle forgets a task of which nothing is left to do.
func (a *Agent) dropIdle(w *work) {
	if w.offer != nil || w.run != nil || w.grant != nil || w.volatile != nil {
		return
	}
	if _, answer := a.outbox.Get(w.id); answer {
		return
	}
	delete(a.tasks, w.id)
	if e, known := a.known(w.id); known && e.Phase != journal.PhaseReceipted && e.Phase != journal.PhaseDropped {
		a.note(w.id, journal.PhaseDropped, e.Attempt)
	}
}
