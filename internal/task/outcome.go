package task

// Outcome is the bucket in which the barrier puts a target. Every target of a
// run is in exactly one.
type Outcome string

// The five outcomes.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomeTimedOut  Outcome = "timed_out"
	OutcomeOffline   Outcome = "offline"
	OutcomeCancelled Outcome = "cancelled"
)

// Outcomes lists every outcome once, in the order in which reports show them.
func Outcomes() []Outcome {
	return []Outcome{OutcomeSucceeded, OutcomeFailed, OutcomeTimedOut, OutcomeOffline, OutcomeCancelled}
}

// Reason says why a target is in its bucket.
type Reason string

// The reason codes. ReasonNone belongs to OutcomeSucceeded alone.
const (
	ReasonNone Reason = ""

	// Failed: what the last attempt ended with.
	ReasonExecutionError    Reason = "execution_error"
	ReasonInvalidResult     Reason = "invalid_result"
	ReasonRefusedByTerminal Reason = "refused_by_terminal"
	ReasonLeaseExpired      Reason = "lease_expired"
	// ReasonAttemptsExhausted: all attempts are used and they ended in
	// different ways; when all ended alike, that way is the reason.
	ReasonAttemptsExhausted Reason = "attempts_exhausted"

	// Timed out: the store was reachable at the barrier.
	ReasonOnlineNeverClaimed  Reason = "online_never_claimed"
	ReasonWaitingForSlot      Reason = "waiting_for_slot"
	ReasonGrantedNeverStarted Reason = "granted_never_started"
	ReasonStartedThenSilent   Reason = "started_then_silent"
	// ReasonStillRunning: the terminal renewed its lease up to the barrier.
	ReasonStillRunning Reason = "still_running"

	// Offline: the store was not reachable at the barrier.
	ReasonOfflineWholeWindow Reason = "offline_whole_window"
	ReasonWentOffline        Reason = "went_offline"

	// Cancelled.
	ReasonByUser             Reason = "by_user"
	ReasonPrerequisiteFailed Reason = "prerequisite_failed"
	ReasonRunAborted         Reason = "run_aborted"
	ReasonExpired            Reason = "expired"
	// ReasonSuperseded: after the barrier a newer run of the same job came, and
	// the job's policy keeps the newest only.
	ReasonSuperseded Reason = "superseded"
)

// Reasons returns the reason codes that may stand beside the outcome.
func (o Outcome) Reasons() []Reason {
	switch o {
	case OutcomeSucceeded:
		return []Reason{ReasonNone}
	case OutcomeFailed:
		return []Reason{ReasonExecutionError, ReasonInvalidResult, ReasonAttemptsExhausted,
			ReasonRefusedByTerminal, ReasonLeaseExpired}
	case OutcomeTimedOut:
		return []Reason{ReasonOnlineNeverClaimed, ReasonWaitingForSlot, ReasonGrantedNeverStarted,
			ReasonStartedThenSilent, ReasonStillRunning}
	case OutcomeOffline:
		return []Reason{ReasonOfflineWholeWindow, ReasonWentOffline}
	case OutcomeCancelled:
		return []Reason{ReasonByUser, ReasonPrerequisiteFailed, ReasonRunAborted, ReasonExpired, ReasonSuperseded}
	}
	return nil
}
