package backlog_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/backlog"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// brittle panics over the job and the run "poisoned"; the job has an open run.
type brittle struct {
	*store.Store
	tries atomic.Int64
}

func (b *brittle) ListOpenRuns(ctx context.Context) ([]store.Run, error) {
	runs, err := b.Store.ListOpenRuns(ctx)
	return append(runs, store.Run{Job: "poisoned"}), err
}

func (b *brittle) GetRun(ctx context.Context, runID string) (store.Run, error) {
	if runID == "poisoned" {
		panic("nobody can read that")
	}
	return b.Store.GetRun(ctx, runID)
}

func (b *brittle) Supersede(ctx context.Context, name string, most int, now time.Time) (int, error) {
	if name == "poisoned" {
		b.tries.Add(1)
		panic("nobody can withdraw that")
	}
	return b.Store.Supersede(ctx, name, most, now)
}

// A job, or a run, that makes headquarters panic is told and tried again; the
// others are withdrawn in time.
func TestAJobThatPanicsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.New(t, func(c []store.Change) { d.Changed(c) })
		b := &brittle{Store: d.Store}
		var alarms steptest.Alarms
		d.Backlog = backlog.New(backlog.Config{Tasks: b, Now: time.Now, Logger: d.Logger,
			Ward: &quarantine.Ward{Logger: d.Logger, Now: time.Now, Alarm: alarms.Raise}})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Backlog.Stop)
		d.Changed([]store.Change{{Kind: store.RevisionReady, Revision: 1, RunID: "poisoned"}})
		d.Create("old", 1, keeping(job.BacklogNewest))
		d.judge("old")
		time.Sleep(time.Second)
		d.Create("new", 1, keeping(job.BacklogNewest))
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		d.is("old", 0, task.Cancelled, task.ReasonSuperseded)
		time.Sleep(50 * time.Second)
		const panicked = ": headquarters panicked: nobody can "
		want := "step_panicked the backlog of run poisoned" + panicked + "read that\nstep_panicked the backlog of job poisoned" + panicked + "withdraw that"
		if told := alarms.Told(); told != want {
			t.Errorf("alarms %s", told)
		}
		if n := b.tries.Load(); n < 3 || n > 11 {
			t.Errorf("it is tried %d times", n)
		}
	})
}
