package agent

import (
	"time"

	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/journal"
	"muster/internal/protocol"
)

// restore takes up what an earlier agent left: answers are sent again, and an
// attempt that began without an end is answered as interrupted (I3).
// What the disk does not take is owed.
func (a *Agent) restore(now time.Time) {
	damaged := map[string]int{}
	for _, lost := range a.outbox.Damaged {
		damaged[lost.TaskID] = max(lost.Attempt, damaged[lost.TaskID])
	}
	for _, kept := range a.outbox.List() {
		a.get(kept.TaskID).sendAt = now
		e, _ := a.journal.Get(kept.TaskID)
		if e.Attempt < kept.Attempt || (e.Attempt == kept.Attempt && e.Phase != journal.PhaseFinished) {
			if err := a.record(kept.TaskID, journal.PhaseFinished, kept.Attempt); err != nil {
				a.log.Error("end of an attempt cannot be journalled", "task_id", kept.TaskID, "attempt", kept.Attempt, "error", err)
			}
		}
	}
	for _, e := range a.journal.Open() {
		w := a.get(e.TaskID)
		if kept, ok := a.outbox.Get(e.TaskID); ok && kept.Attempt >= e.Attempt {
			continue
		}
		switch e.Phase {
		case journal.PhaseGranted, journal.PhaseStarted:
			a.interrupted(w, e, now)
		case journal.PhaseFinished:
			if damaged[e.TaskID] == e.Attempt {
				a.keep(w, a.failed(w, e.Attempt, ending.Lost(), now), now)
				continue
			}
			// The receipt was obeyed and the crash came before it was noted.
			a.note(e.TaskID, journal.PhaseReceipted, e.Attempt)
			a.dropIdle(w)
		case journal.PhaseOffered, journal.PhaseClaimed, journal.PhaseReceipted, journal.PhaseDropped:
		}
	}
}

func (a *Agent) interrupted(w *work, e journal.Entry, now time.Time) {
	order := executor.Order{TaskID: e.TaskID, Attempt: e.Attempt, StoreID: a.cfg.StoreID, TerminalID: a.cfg.TerminalID}
	killed := executor.KillLeftovers(order)
	a.log.Warn("attempt was cut off, answered as interrupted", "task_id", e.TaskID, "attempt", e.Attempt, "killed", killed)
	answer := a.failed(w, e.Attempt, protocol.Failure{Code: protocol.CodeInterrupted,
		Message: "the terminal stopped in the middle of the execution"}, now)
	answer.Frame.StartedAt = min(e.StartedAt, answer.Frame.FinishedAt) // the clock may be set back since
	answer.Frame.Executed = true
	a.keep(w, answer, now)
}
