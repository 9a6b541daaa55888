package barrier_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

var (
	t0  = time.Date(2026, 9, 17, 10, 0, 0, 0, time.UTC)
	now = t0.Add(2 * time.Minute)
)

func TestJudge(t *testing.T) {
	t.Parallel()
	pending := task.State{Status: task.Pending}
	running := task.State{Status: task.Running, Attempt: 1}
	failed := func(attempt int, settled bool) task.State {
		return task.State{Status: task.Failed, Attempt: attempt, Settled: settled}
	}
	cancelled := task.State{Status: task.Cancelled, Settled: true}
	granted := &store.Attempt{GrantedAt: t0, LeaseUntil: now.Add(time.Second)}
	started := &store.Attempt{GrantedAt: t0, StartedAt: t0, LastSignAt: t0, LeaseUntil: now}
	alive := &store.Attempt{GrantedAt: t0, StartedAt: t0, LastSignAt: now, LeaseUntil: now.Add(time.Second)}
	ready := &store.Attempt{GrantedAt: t0, StartedAt: t0, ReadyAt: now, LeaseUntil: now.Add(time.Second)}
	readyAtOnce := &store.Attempt{GrantedAt: t0, ReadyAt: now, LeaseUntil: now.Add(time.Second)}
	for name, c := range map[string]struct {
		c       store.Candidate
		outcome task.Outcome
		reason  task.Reason
	}{
		"succeeded":                 {store.Candidate{Task: store.Task{State: task.State{Status: task.Succeeded, Attempt: 1, Settled: true}}}, task.OutcomeSucceeded, ""},
		"cancelled by a user":       {store.Candidate{Task: store.Task{State: cancelled, Reason: task.ReasonByUser}}, task.OutcomeCancelled, task.ReasonByUser},
		"expired":                   {store.Candidate{Task: store.Task{State: cancelled, Reason: task.ReasonExpired}}, task.OutcomeCancelled, task.ReasonExpired},
		"the run aborted":           {store.Candidate{Task: store.Task{State: cancelled, Reason: task.ReasonRunAborted}}, task.OutcomeCancelled, task.ReasonRunAborted},
		"a prerequisite failed":     {store.Candidate{Task: store.Task{State: cancelled, Reason: task.ReasonPrerequisiteFailed}}, task.OutcomeCancelled, task.ReasonPrerequisiteFailed},
		"cancelled, nobody said by": {store.Candidate{Task: store.Task{State: cancelled}}, task.OutcomeCancelled, task.ReasonByUser},

		"failed once, a retry follows": {store.Candidate{Task: store.Task{State: failed(1, false), Attempts: 2, LastCode: protocol.CodeTimeLimit}}, task.OutcomeFailed, task.ReasonExecutionError},
		"a retry follows, offline":     {store.Candidate{Task: store.Task{State: failed(1, false), Attempts: 2, LastCode: protocol.CodeLeaseExpired}}, task.OutcomeFailed, task.ReasonLeaseExpired},
		"invalid twice":                {store.Candidate{SameCodes: true, Task: store.Task{State: failed(2, true), Attempts: 2, LastCode: protocol.CodeInvalidResult}}, task.OutcomeFailed, task.ReasonInvalidResult},
		"two ways":                     {store.Candidate{Task: store.Task{State: failed(2, true), Attempts: 2, LastCode: protocol.CodeInvalidResult}}, task.OutcomeFailed, task.ReasonAttemptsExhausted},
		"two ways, attempts left":      {store.Candidate{Task: store.Task{State: failed(2, false), Attempts: 3, LastCode: protocol.CodeInvalidResult}}, task.OutcomeFailed, task.ReasonInvalidResult},
		"the only attempt":             {store.Candidate{Task: store.Task{State: failed(1, true), Attempts: 1, LastCode: protocol.CodeInterrupted}}, task.OutcomeFailed, task.ReasonExecutionError},
		"refused":                      {store.Candidate{Task: store.Task{State: failed(1, true), Attempts: 2, LastCode: protocol.CodeRefused}}, task.OutcomeFailed, task.ReasonRefusedByTerminal},

		"running, went offline":     {store.Candidate{Task: store.Task{State: running}, Attempt: alive}, task.OutcomeOffline, task.ReasonWentOffline},
		"ready, went offline":       {store.Candidate{Task: store.Task{State: running}, Attempt: ready}, task.OutcomeOffline, task.ReasonWentOffline},
		"ready":                     {store.Candidate{Online: true, Task: store.Task{State: running}, Attempt: ready}, task.OutcomeTimedOut, task.ReasonWaitingForSlot},
		"ready is a sign of life":   {store.Candidate{Online: true, Task: store.Task{State: running}, Attempt: readyAtOnce}, task.OutcomeTimedOut, task.ReasonWaitingForSlot},
		"never started":             {store.Candidate{Online: true, Task: store.Task{State: running}, Attempt: granted}, task.OutcomeTimedOut, task.ReasonGrantedNeverStarted},
		"still running":             {store.Candidate{Online: true, Task: store.Task{State: running}, Attempt: alive}, task.OutcomeTimedOut, task.ReasonStillRunning},
		"lease over at this moment": {store.Candidate{Online: true, Task: store.Task{State: running}, Attempt: started}, task.OutcomeTimedOut, task.ReasonStartedThenSilent},

		"online, never claimed":      {store.Candidate{Online: true, Task: store.Task{State: pending}}, task.OutcomeTimedOut, task.ReasonOnlineNeverClaimed},
		"online, claimed":            {store.Candidate{Online: true, Task: store.Task{State: pending, ClaimedAt: t0}}, task.OutcomeTimedOut, task.ReasonWaitingForSlot},
		"never seen":                 {store.Candidate{Task: store.Task{State: pending, CreatedAt: t0}}, task.OutcomeOffline, task.ReasonOfflineWholeWindow},
		"last seen before the run":   {store.Candidate{LastSeen: t0.Add(-1), Task: store.Task{State: pending, CreatedAt: t0}}, task.OutcomeOffline, task.ReasonOfflineWholeWindow},
		"seen as the run was made":   {store.Candidate{LastSeen: t0, Task: store.Task{State: pending, CreatedAt: t0}}, task.OutcomeOffline, task.ReasonWentOffline},
		"seen after this moment":     {store.Candidate{LastSeen: now.Add(1), Task: store.Task{State: pending, CreatedAt: t0}}, task.OutcomeOffline, task.ReasonOfflineWholeWindow},
		"claimed, then went offline": {store.Candidate{Task: store.Task{State: pending, CreatedAt: t0, ClaimedAt: t0}}, task.OutcomeOffline, task.ReasonWentOffline},
		"no such state":              {store.Candidate{Task: store.Task{State: task.State{Status: "LOST"}}}, "", ""},
	} {
		outcome, reason, _ := barrier.Judge(c.c, now)
		if outcome != c.outcome || reason != c.reason {
			t.Errorf("%s: got %s, %q; want %s, %q", name, outcome, reason, c.outcome, c.reason)
		}
	}
}

func TestEvidenceIsWhatWasKnown(t *testing.T) {
	t.Parallel()
	skew := int64(-42)
	_, _, got := barrier.Judge(store.Candidate{Online: true, LastSeen: t0.Add(1), SkewMs: &skew,
		Task: store.Task{State: task.State{Status: task.Running, Attempt: 2}, Attempts: 3, ClaimedAt: t0.Add(2 * time.Second)},
		Attempt: &store.Attempt{GrantedAt: t0.Add(3 * time.Second), StartedAt: t0.Add(4 * time.Second),
			LastSignAt: t0.Add(5 * time.Second), ReadyAt: t0.Add(6 * time.Second)}}, now)
	want := protocol.Evidence{Online: true, LastSeenAt: protocol.At(t0), ClaimedAt: protocol.At(t0.Add(2 * time.Second)),
		GrantedAt: protocol.At(t0.Add(3 * time.Second)), StartedAt: protocol.At(t0.Add(4 * time.Second)),
		LastSignAt: protocol.At(t0.Add(5 * time.Second)), ReadyAt: protocol.At(t0.Add(6 * time.Second)),
		Attempts: 2, AttemptsOf: 3, ClockSkewMs: &skew}
	if got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// anyCandidate draws a task in any valid state with any knowledge of it.
func anyCandidate(t *rapid.T) store.Candidate {
	moment := func(name string) time.Time {
		if !rapid.Bool().Draw(t, name) {
			return time.Time{}
		}
		return t0.Add(time.Duration(rapid.IntRange(-300, 300).Draw(t, name+" at")) * time.Second)
	}
	state := rapid.Custom(func(t *rapid.T) task.State {
		return task.State{Status: rapid.SampledFrom(task.Statuses()).Draw(t, "status"),
			Attempt: rapid.IntRange(0, 4).Draw(t, "attempt"), Settled: rapid.Bool().Draw(t, "settled")}
	}).Filter(task.State.Valid).Draw(t, "state")
	c := store.Candidate{
		Task: store.Task{State: state, Attempts: rapid.IntRange(1, 4).Draw(t, "attempts"), CreatedAt: t0, ClaimedAt: moment("claimed"),
			LastCode: rapid.SampledFrom([]protocol.Code{"", protocol.CodeRefused, protocol.CodeInvalidResult, protocol.CodeLeaseExpired,
				protocol.CodeExecution, protocol.CodeInterrupted, "SOMETHING_NEW"}).Draw(t, "code"),
			Reason: task.Reason(rapid.SampledFrom([]string{"", "by_user", "expired", "run_aborted", "prerequisite_failed", "lease_expired", "new"}).Draw(t, "reason"))},
		Online: rapid.Bool().Draw(t, "online"), LastSeen: moment("seen"), SameCodes: rapid.Bool().Draw(t, "same"),
	}
	if state.Attempt > 0 && rapid.Bool().Draw(t, "known attempt") {
		c.Attempt = &store.Attempt{GrantedAt: t0, StartedAt: moment("started"), ReadyAt: moment("ready"), LeaseUntil: moment("lease")}
	}
	return c
}

func TestJudgeIsTotalAndItsReasonBelongsToItsOutcome(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := rapid.SliceOf(rapid.Custom(anyCandidate)).Draw(t, "candidates")
		var counts protocol.Counts
		for _, c := range candidates {
			outcome, reason, _ := barrier.Judge(c, now)
			if !slices.Contains(outcome.Reasons(), reason) {
				t.Fatalf("%s with reason %q", outcome, reason)
			}
			if c.Task.State.Status == task.Succeeded != (outcome == task.OutcomeSucceeded) {
				t.Fatalf("a task in %s is judged %s", c.Task.State.Status, outcome)
			}
			counts.Add(outcome)
		}
		if counts.Sum() != len(candidates) {
			t.Fatalf("the buckets hold %d of %d", counts.Sum(), len(candidates))
		}
	})
}
