package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/task"
	"muster/tests/chaos/history"
	"muster/tests/chaos/sim"
)

// killedOnce is a plan of one task, in the middle of whose first execution its
// agent is killed.
func killedOnce(attempts int, loses sim.Loss) sim.Plan {
	return sim.Plan{Seed: 1, Stores: []string{"S01"}, Terminals: []sim.Seat{{Store: "S01", Terminal: "pos1", Parallel: 1}},
		Jobs: []sim.Job{{Name: "job1", Attempts: attempts, RunTimeout: time.Minute, Lease: 10 * time.Second, Barrier: time.Minute,
			Makeup: time.Minute, Late: "accept_and_revise", Ends: []string{"slow"}}},
		Limits: sim.Budget{MaxRunning: 2, GrantsPerSecond: 10, GrantBurst: 2, InFlight: 1, BytesPerSecond: 64 << 10},
		Runs:   []sim.Ask{{At: 10 * time.Second, User: "wang", Job: "job1", ID: "r0", Stores: []string{"S01"}}},
		Faults: []sim.Fault{{At: 5 * time.Second, Kind: sim.KillAgent, Upon: "executing", For: 3 * time.Second, Loses: loses}}}
}

// TestWhatAKilledAgentStartedIsNotStartedAgain, of a job that is not to be tried
// again when it was interrupted: an agent that remembers says so, one that lost its
// journal is silent until the lease ends, and no attempt is executed twice.
func TestWhatAKilledAgentStartedIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	remembers := []string{"1 INTERRUPTED"}
	forgot := []string{"1 LEASE_EXPIRED", "2 "}
	for name, c := range map[string]struct {
		attempts int
		loses    sim.Loss
		records  []string
		ends     task.Status
		reason   task.Reason
	}{
		"remembers":         {2, sim.Nothing, remembers, task.Failed, task.ReasonExecutionError},
		"journal gone":      {2, sim.Gone, forgot, task.Succeeded, ""},
		"journal emptied":   {2, sim.Emptied, forgot, task.Succeeded, ""},
		"journal garbled":   {2, sim.Garbled, forgot, task.Succeeded, ""},
		"journal swapped":   {2, sim.Swapped, remembers, task.Failed, task.ReasonExecutionError},
		"gone, one attempt": {1, sim.Gone, forgot[:1], task.Failed, task.ReasonLeaseExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			var p sim.Played
			synctest.Test(t, func(t *testing.T) {
				var err error
				if p, err = sim.Play(t.Context(), killedOnce(c.attempts, c.loses), folder); err != nil {
					t.Error(err)
				}
			})
			v, h, err := sim.Judge(folder, p)
			if err != nil || len(v.Findings) > 0 {
				t.Errorf("%v, %v", v.Findings, err)
			}
			var records, marks []string
			for _, a := range p.Store.Attempts {
				records = append(records, fmt.Sprint(a.Attempt, " ", a.Code))
			}
			for _, l := range h.Lines {
				if l.Act == history.ActExecuted {
					marks = append(marks, fmt.Sprint(l.Attempt))
				}
			}
			if !slices.Equal(records, c.records) || !slices.Equal(marks, []string{"1", "2"}[:len(c.records)]) {
				t.Errorf("attempts %q, executed %q", records, marks)
			}
			if tasks := p.Store.Tasks; len(tasks) != 1 || tasks[0].Status != c.ends || tasks[0].SettledAt == 0 {
				t.Errorf("tasks %+v", tasks)
			}
			if said := p.Store.Outcomes; len(said) != 1 || said[0].Reason != c.reason {
				t.Errorf("the report says %+v", said)
			}
		})
	}
}
