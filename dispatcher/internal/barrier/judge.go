package barrier

import (
	"slices"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Judge says in which bucket a target is, why, and what headquarters knew. It
// depends on nothing but its arguments: now is the moment of the snapshot.
//
//   - A task that succeeded or was cancelled is that.
//   - A task that failed is failed, whether a retry was to follow or not, for
//     the reason of its last attempt; for attempts_exhausted when all of several
//     attempts are used and they ended in different ways.
//   - A running or pending task of a store that is not reachable is offline:
//     went_offline if it was seen since the run was made, or holds an attempt.
//   - A running task of a reachable store timed out: it waits for a collection
//     slot, was never seen to start, still renews its lease, or fell silent.
//   - A pending task of a reachable store timed out: it waits for a slot, or
//     was never claimed.
//
// The outcome of a state that is none of task's is empty, which is in no bucket
// and so stops the report.
func Judge(c store.Candidate, now time.Time) (task.Outcome, task.Reason, protocol.Evidence) {
	outcome, reason := judgement(c, now)
	return outcome, reason, evidenceOf(c)
}

func judgement(c store.Candidate, now time.Time) (task.Outcome, task.Reason) {
	switch c.Task.State.Status {
	case task.Succeeded:
		return task.OutcomeSucceeded, task.ReasonNone
	case task.Cancelled:
		return task.OutcomeCancelled, cancelReason(c.Task)
	case task.Failed:
		return task.OutcomeFailed, failReason(c)
	case task.Running:
		if !c.Online {
			return task.OutcomeOffline, task.ReasonWentOffline
		}
		return task.OutcomeTimedOut, runningReason(c.Attempt, now)
	case task.Pending:
		return pendingJudgement(c, now)
	}
	return "", ""
}

func cancelReason(t store.Task) task.Reason {
	if slices.Contains(task.OutcomeCancelled.Reasons(), t.Reason) {
		return t.Reason
	}
	return task.ReasonByUser // a terminal that says it was stopped gives no reason
}

func failReason(c store.Candidate) task.Reason {
	used := c.Task.Used()
	if used > 1 && used >= c.Task.Allowed() && !c.SameCodes {
		return task.ReasonAttemptsExhausted
	}
	switch c.Task.LastCode {
	case protocol.CodeInvalidResult:
		return task.ReasonInvalidResult
	case protocol.CodeRefused:
		return task.ReasonRefusedByTerminal
	case protocol.CodeLeaseExpired:
		return task.ReasonLeaseExpired
	default:
		return task.ReasonExecutionError
	}
}

func runningReason(a *store.Attempt, now time.Time) task.Reason {
	switch {
	case a == nil || (a.StartedAt.IsZero() && a.ReadyAt.IsZero()):
		return task.ReasonGrantedNeverStarted
	case !a.ReadyAt.IsZero():
		return task.ReasonWaitingForSlot
	case a.LeaseUntil.After(now):
		return task.ReasonStillRunning
	}
	return task.ReasonStartedThenSilent
}

func pendingJudgement(c store.Candidate, now time.Time) (task.Outcome, task.Reason) {
	// What was seen after now was seen before the clock was set back, and that is
	// never done under a run.
	seen := !c.LastSeen.IsZero() && !c.LastSeen.Before(c.Task.CreatedAt) && !c.LastSeen.After(now)
	claimed := !c.Task.ClaimedAt.IsZero()
	switch {
	case c.Online && claimed:
		return task.OutcomeTimedOut, task.ReasonWaitingForSlot
	case c.Online:
		return task.OutcomeTimedOut, task.ReasonOnlineNeverClaimed
	case seen || claimed:
		return task.OutcomeOffline, task.ReasonWentOffline
	}
	return task.OutcomeOffline, task.ReasonOfflineWholeWindow
}

func evidenceOf(c store.Candidate) protocol.Evidence {
	e := protocol.Evidence{
		Online:      c.Online,
		LastSeenAt:  protocol.At(c.LastSeen),
		ClaimedAt:   protocol.At(c.Task.ClaimedAt),
		Attempts:    c.Task.Used(),
		AttemptsOf:  c.Task.Allowed(),
		ClockSkewMs: c.SkewMs,
	}
	if a := c.Attempt; a != nil {
		e.GrantedAt = protocol.At(a.GrantedAt)
		e.StartedAt = protocol.At(a.StartedAt)
		e.LastSignAt = protocol.At(a.LastSignAt)
		e.ReadyAt = protocol.At(a.ReadyAt)
	}
	return e
}
