package intake_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// reads counts what is read of the store.
type reads struct {
	*store.Store
	runs, tasks atomic.Int64
}

func (r *reads) GetRun(ctx context.Context, runID string) (store.Run, error) {
	r.runs.Add(1)
	return r.Store.GetRun(ctx, runID)
}

func (r *reads) GetTask(ctx context.Context, taskID string) (store.Task, error) {
	r.tasks.Add(1)
	return r.Store.GetTask(ctx, taskID)
}

// openReading is a desk that counts what its intake reads. It hears of changes only
// while told.
func openReading(t *testing.T) (d *desk, r *reads, hears *atomic.Bool) {
	t.Helper()
	d, hears = &desk{t: t, leases: &leases{}}, &atomic.Bool{}
	hears.Store(true)
	d.Bench = steptest.New(t, func(changes []store.Change) {
		if hears.Load() {
			d.Changed(changes)
		}
	})
	r = &reads{Store: d.Store}
	d.Intake = intake.New(intake.Config{Tasks: r, Attempts: d, Jobs: registry(t), Leases: d.leases, Orders: d.Sender,
		Now: d.now, Logger: d.Logger, InFlight: 8, BurstBytes: 1})
	return d, r, hears
}

func TestARunIsReadOnceForAllItsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, r, _ := openReading(t)
		d.run(9)
		synctest.Wait()
		for i := range 9 {
			d.send(i, success(i, 1, `{"lines":1}`))
		}
		if got := d.Stats().Accepted; got != 9 || r.runs.Load() != 1 || r.tasks.Load() != 0 {
			t.Errorf("%d accepted, %d runs and %d tasks read", got, r.runs.Load(), r.tasks.Load())
		}
		synctest.Wait()
		if runs, tasks := d.Remembered(); runs != 1 || tasks != 0 {
			t.Errorf("%d runs and %d tasks remembered", runs, tasks)
		}
		if _, err := d.Store.CloseRun(t.Context(), "r", task.ReasonNone, time.Now()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if runs, _ := d.Remembered(); runs != 0 {
			t.Errorf("%d runs remembered after the close", runs)
		}
	})
}

// TestTheBarrierIsAskedForAnew: a run that is remembered from before its barrier takes
// no late announcement.
func TestTheBarrierIsAskedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, _ := openReading(t)
		d.run(3, func(p *job.Policy) { p.Late = job.Reject })
		d.send(2, success(2, 1, `{"lines":1}`))
		d.ready(0, 100_000)
		if got := d.Stats().Waiting; got != 1 {
			t.Fatalf("%d wait", got)
		}
		snapshot, err := d.Store.CloseBarrier(t.Context(), "r", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := snapshot.Close(); err != nil {
			t.Fatal(err)
		}
		d.ready(1, 100_000)
		if got := d.lastReceipt(); got != "refused LATE" || d.Stats().Waiting != 1 {
			t.Errorf("receipt %s, %d wait", got, d.Stats().Waiting)
		}
	})
}

// TestWhatIsRememberedDecidesNothing: the attempt ended, and intake was not told yet.
func TestWhatIsRememberedDecidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(d *desk) error
		want string
	}{
		"cancelled": {func(d *desk) error {
			_, _, err := d.Store.Cancel(d.t.Context(), "r", nil, task.ReasonByUser, "tech", time.Now())
			return err
		}, "refused SETTLED"},
		"lease ended": {func(d *desk) error {
			_, err := d.Store.Settle(d.t.Context(), store.Answer{Attempt: store.Attempt{TaskID: "r-S000", Attempt: 1, StoreID: "S000", TerminalID: "pos"},
				Event: task.Fail, Reason: task.ReasonLeaseExpired}, time.Now())
			return err
		}, "refused STALE"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, r, hears := openReading(t)
				d.run(1)
				synctest.Wait()
				hears.Store(false)
				if err := c.end(d); err != nil {
					t.Fatal(err)
				}
				before := d.Task("r-S000").State
				d.send(0, success(0, 1, `{"lines":1}`))
				d.expect(c.want, before)
				if r.tasks.Load() != 0 {
					t.Error("it was not remembered")
				}
			})
		})
	}
}

// TestMemoryIsBounded: I12.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	i := intake.New(intake.Config{InFlight: 1, BurstBytes: 1})
	for n := range 3 * intake.MaxRuns {
		i.Remember(store.Run{RunID: fmt.Sprint(n)})
	}
	move := func(n int, s task.State, input int) {
		i.Changed([]store.Change{{Kind: store.TaskMoved, RunID: "r", Task: &store.Task{TaskID: fmt.Sprint(n), State: s, Input: make([]byte, input)}}})
	}
	for n := range 2 * intake.MaxTasks {
		move(n, running(1), 0)
	}
	if runs, tasks := i.Remembered(); runs > intake.MaxRuns || tasks != intake.MaxTasks {
		t.Errorf("%d runs and %d tasks remembered", runs, tasks)
	}
	move(0, running(2), 0)
	move(1, running(2), intake.MaxInput+1)
	move(2, awaiting(1), 0)
	if _, tasks := i.Remembered(); tasks != intake.MaxTasks-2 {
		t.Errorf("%d tasks remembered", tasks)
	}
}

// TestARetryIsAnsweredByItsOwnAttempt: what is remembered follows the newest grant.
func TestARetryIsAnsweredByItsOwnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, _ := openReading(t)
		d.run(1)
		d.send(0, failure(0, 1, protocol.CodeExecution))
		d.expect("accepted", awaiting(1))
		time.Sleep(time.Minute)
		d.grant(0)
		synctest.Wait()
		d.send(0, success(0, 1, `{"lines":1}`))
		d.expect("refused STALE", running(2))
		d.send(0, success(0, 2, `{"lines":1}`))
		d.expect("accepted", over(task.Succeeded, 2))
	})
}
