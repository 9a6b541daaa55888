package backlog_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/backlog"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// TestWhatIsSupersededGoesWithoutAClaim, at each moment at which it becomes so: a
// newer run is made, the own report is, headquarters starts.
func TestWhatIsSupersededGoesWithoutAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		d := open(t, path)
		d.Create("r1", 1, keeping(job.BacklogNewest))
		d.judge("r1")
		settle()
		d.is("r1", 0, task.Pending, "")
		d.Create("r2", 1, keeping(job.BacklogNewest))
		time.Sleep(4 * time.Second)
		synctest.Wait()
		d.is("r1", 0, task.Pending, "") // the offers of the new one go first
		time.Sleep(2 * time.Second)
		synctest.Wait()
		d.is("r1", 0, task.Cancelled, task.ReasonSuperseded)

		time.Sleep(time.Second)
		d.Create("r3", 1, keeping(job.BacklogNewest))
		settle()
		d.is("r2", 0, task.Pending, "")
		d.judge("r2")
		settle()
		d.is("r2", 0, task.Cancelled, task.ReasonSuperseded)

		d.judge("r3")
		settle()
		d.Backlog.Stop() // cut off before it came to the next one
		time.Sleep(time.Second)
		d.Create("r4", 1, keeping(job.BacklogNewest))
		settle()
		d.is("r3", 0, task.Pending, "")
		d.Bench.Close()
		d = open(t, path)
		settle()
		d.is("r3", 0, task.Cancelled, task.ReasonSuperseded)
		d.is("r4", 0, task.Pending, "")
	})
}

func TestMoreThanOneTransactionTakesGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stores = 450
		d := open(t, filepath.Join(t.TempDir(), "muster.db"))
		d.Create("old", stores, keeping(job.BacklogNewest))
		d.judge("old")
		settle()
		d.Create("new", stores, keeping(job.BacklogNewest))
		settle()
		for _, i := range []int{0, 199, 200, 399, 400, stores - 1} {
			d.is("old", i, task.Cancelled, task.ReasonSuperseded)
			d.is("new", i, task.Pending, "")
		}
	})
}

// failing is a store whose disk fails at times.
type failing struct {
	*store.Store
	run, job atomic.Int64 // how often it still fails
}

var errDisk = errors.New("the disk is tired")

func (f *failing) GetRun(ctx context.Context, runID string) (store.Run, error) {
	if f.run.Add(-1) >= 0 {
		return store.Run{}, errDisk
	}
	return f.Store.GetRun(ctx, runID)
}

func (f *failing) Supersede(ctx context.Context, job string, most int, now time.Time) (int, error) {
	if f.job.Add(-1) >= 0 {
		return 0, errDisk
	}
	return f.Store.Supersede(ctx, job, most, now)
}

func TestAStoreThatFailsIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		d.Bench = steptest.Open(t, filepath.Join(t.TempDir(), "muster.db"), func(c []store.Change) { d.Changed(c) })
		f := &failing{Store: d.Store}
		d.Backlog = backlog.New(backlog.Config{Tasks: f, Now: time.Now, Logger: d.Logger})
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer d.Backlog.Stop()
		d.Create("r1", 1, keeping(job.BacklogNewest))
		d.Create("r2", 1, keeping(job.BacklogNewest))
		settle()
		f.run.Store(3)
		f.job.Store(3)
		d.judge("r1")
		settle()
		d.is("r1", 0, task.Pending, "")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f.run.Load() >= 0 || f.job.Load() >= 0 {
			t.Fatalf("it was not asked again: %d, %d", f.run.Load(), f.job.Load())
		}
		d.is("r1", 0, task.Cancelled, task.ReasonSuperseded)
	})
}
