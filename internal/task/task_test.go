package task_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/task"
)

func TestMovesTableIsExactlyTheDesign(t *testing.T) {
	t.Parallel()
	want := map[task.Status]map[task.Event]task.State{
		task.Pending: {
			task.Grant:  {Status: task.Running, Attempt: 1},
			task.Cancel: {Status: task.Cancelled, Settled: true},
		},
		task.Running: {
			task.Succeed: {Status: task.Succeeded, Attempt: 1, Settled: true},
			task.Fail:    {Status: task.Failed, Attempt: 1},
			task.GiveUp:  {Status: task.Failed, Attempt: 1, Settled: true},
			task.Cancel:  {Status: task.Cancelled, Attempt: 1, Settled: true},
		},
		task.Failed: {
			task.Grant:  {Status: task.Running, Attempt: 2},
			task.GiveUp: {Status: task.Failed, Attempt: 1, Settled: true},
			task.Cancel: {Status: task.Cancelled, Attempt: 1, Settled: true},
		},
	}
	for _, status := range task.Statuses() {
		for _, settled := range []bool{false, true} {
			from := task.State{Status: status, Attempt: 1, Settled: settled}
			if status == task.Pending {
				from.Attempt = 0
			}
			for _, event := range task.Events() {
				got, err := from.Next(event)
				next, legal := want[status][event]
				if settled || !legal {
					var moveErr *task.MoveError
					if !errors.As(err, &moveErr) || got != from {
						t.Errorf("%v on %v: got %v, %v; want a MoveError and no change", event, from, got, err)
					}
					continue
				}
				if err != nil || got != next {
					t.Errorf("%v on %v: got %v, %v; want %v", event, from, got, err, next)
				}
			}
		}
	}
}

func TestAnySequenceKeepsTheInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := task.State{Status: task.Pending}
		events := rapid.SliceOf(rapid.SampledFrom(task.Events())).Draw(t, "events")
		terminals, grants := 0, 0
		for _, event := range events {
			next, err := state.Next(event)
			if err != nil {
				if next != state {
					t.Fatalf("a refused %s changed %v to %v", event, state, next)
				}
				continue
			}
			if !next.Valid() {
				t.Fatalf("%s led from %v to the invalid %v", event, state, next)
			}
			if state.Terminal() {
				t.Fatalf("%s left the terminal %v", event, state)
			}
			if next.Attempt < state.Attempt || next.Attempt > state.Attempt+1 {
				t.Fatalf("%s moved the attempt from %d to %d", event, state.Attempt, next.Attempt)
			}
			if event == task.Grant {
				grants++
			}
			if next.Terminal() {
				terminals++
			}
			state = next
		}
		if terminals > 1 {
			t.Fatalf("%d terminal transitions", terminals)
		}
		if state.Attempt != grants {
			t.Fatalf("attempt %d after %d grants", state.Attempt, grants)
		}
	})
}

func TestEveryOutcomeHasItsOwnReasons(t *testing.T) {
	t.Parallel()
	seen := map[task.Reason]task.Outcome{}
	for _, outcome := range task.Outcomes() {
		reasons := outcome.Reasons()
		if len(reasons) == 0 {
			t.Errorf("%s has no reasons", outcome)
		}
		for _, reason := range reasons {
			if other, taken := seen[reason]; taken {
				t.Errorf("reason %q stands under %s and %s", reason, other, outcome)
			}
			seen[reason] = outcome
		}
	}
	if len(task.Outcome("lost").Reasons()) != 0 {
		t.Error("an unknown outcome has reasons")
	}
}
