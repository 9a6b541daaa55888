// Package job describes registered kinds of work: a job's name, version,
// schemas, report columns, and the policy that a run freezes when it is made.
//
// It decides nothing about a particular task and keeps no state.
package job

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// LatePolicy says what becomes of an answer after the barrier.
type LatePolicy string

// The late policies.
const (
	// AcceptAndRevise: the answer settles the task and makes a new revision.
	AcceptAndRevise LatePolicy = "accept_and_revise"
	// RecordOnly: the answer is stored with its attempt, the report stays.
	RecordOnly LatePolicy = "record_only"
	// Reject: the answer is refused with a receipt that says so.
	Reject LatePolicy = "reject"
)

// BacklogPolicy says what becomes of the tasks that a store did not do, while it
// was away, when a newer run of the job has one for it.
type BacklogPolicy string

// The backlog policies. None, as in runs that were made before there were any,
// is BacklogAll.
const (
	// BacklogNewest: the newest alone is done, the older ones are superseded once
	// their barrier has passed.
	BacklogNewest BacklogPolicy = "newest"
	// BacklogAll: each is done, as long as its make-up window lasts.
	BacklogAll BacklogPolicy = "all"
)

// Policy is how tasks of one run are treated. A run carries its own frozen
// copy, so a change of the job's file never touches a run that exists.
type Policy struct {
	Attempts         int           `json:"attempts"`         // executions a task, at least 1
	RunTimeout       time.Duration `json:"runTimeout"`       // one execution
	Lease            time.Duration `json:"lease"`            // silence that ends an attempt
	Barrier          time.Duration `json:"barrier"`          // from the order to revision 1
	Makeup           time.Duration `json:"makeup"`           // from the barrier to the close
	Late             LatePolicy    `json:"late"`             // answers after the barrier
	RetryInterrupted bool          `json:"retryInterrupted"` // may a crash mid-execution be tried again
	RetryFirst       time.Duration `json:"retryFirst"`       // before attempt 2
	RetryMax         time.Duration `json:"retryMax"`         // bound of later delays, before jitter
	MaxRunning       int           `json:"maxRunning"`       // cap on RUNNING of the run; 0: only the overall cap
	GrantRate        float64       `json:"grantRate"`        // grants a second of the run; 0: only the overall rate
	GrantBurst       int           `json:"grantBurst"`
	Quorum           float64       `json:"quorum"`   // share of targets, 0 to 1, under which a report is below_quorum
	Priority         int           `json:"priority"` // higher is admitted first
	Backlog          BacklogPolicy `json:"backlog,omitempty"`
}

// RetryDelay returns how long to wait after so many executions, at least 1, for the
// next one: exponential from RetryFirst to RetryMax with jitter of ±50 %. It counts
// executions, since a restored task's attempts bear high numbers.
func (p Policy) RetryDelay(executions int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.RetryFirst),
		backoff.WithMaxInterval(p.RetryMax),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0),
	)
	var delay time.Duration
	for range min(executions, MaxAttempts) {
		delay = b.NextBackOff()
	}
	return delay
}
