package watch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/watch"
	"muster/internal/protocol"
	"muster/internal/task"
)

// slowRuns takes long to count, as over 100,000 tasks.
type slowRuns struct {
	*store.Store
	counts atomic.Int64
	before func() // is run once, before the first count
}

func (s *slowRuns) CountTasks(ctx context.Context, runID string) (map[task.Status]int, int, error) {
	s.counts.Add(1)
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	time.Sleep(100 * time.Millisecond)
	return s.Store.CountTasks(ctx, runID)
}

// slow is a desk whose runs take long to count.
func slow(t *testing.T) (*desk, *slowRuns) {
	t.Helper()
	d := &desk{}
	d.Bench = steptest.New(t, func(changes []store.Change) { d.Watch.Changed(changes) })
	runs := &slowRuns{Store: d.Store}
	d.Watch = watch.New(runs, d.Sender, func(string) int { return 7 }, nil, d.Logger)
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d, runs
}

func cancel(t *testing.T, d *desk, i int) {
	t.Helper()
	if _, _, err := d.Store.Cancel(t.Context(), "R1", []string{steptest.StoreID(i)}, task.ReasonByUser, "wang", time.Now()); err != nil {
		t.Fatal(err)
	}
}

// TestALargeRunIsNotCountedForEveryState, and its state is right all the same.
func TestALargeRunIsNotCountedForEveryState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 60
		d, runs := slow(t)
		defer d.Stop()
		d.Create("R1", seconds, steptest.Policy())
		time.Sleep(2 * time.Second)
		for i := range seconds - 1 {
			cancel(t, d, i)
			time.Sleep(1500 * time.Millisecond)
			if s := state(t, d, "R1"); s.Tasks[task.Cancelled] != i+1 || s.Tasks[task.Pending] != seconds-i-1 || len(s.Tasks) != 2 {
				t.Fatalf("after %d moves: %v", i+1, s.Tasks)
			}
		}
		if n := runs.counts.Load(); n < 10 || n > 20 { // in 90 s, one in 5 s
			t.Errorf("counted %d times", n)
		}
		if _, err := d.Store.CloseRun(t.Context(), "R1", task.ReasonExpired, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if s := state(t, d, "R1"); s.Phase != protocol.PhaseClosed || s.Tasks[task.Cancelled] != seconds || len(s.Tasks) != 1 {
			t.Errorf("after the close: %+v", s)
		}
		n := runs.counts.Load()
		time.Sleep(time.Minute)
		if more := runs.counts.Load() - n; more != 0 {
			t.Errorf("counted %d times after the close", more)
		}
	})
}

// TestAMoveThatStandsInTheCountAlreadyIsMendedByTheNext: it was on its way while it
// was counted, and nothing moves after it.
func TestAMoveThatStandsInTheCountAlreadyIsMendedByTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, runs := slow(t)
		defer d.Stop()
		runs.before = func() { cancel(t, d, 0) }
		d.Create("R1", 3, steptest.Policy())
		time.Sleep(2 * time.Second)
		if s := state(t, d, "R1"); s.Tasks[task.Cancelled]+s.Tasks[task.Pending] != 3 {
			t.Errorf("the sum is not kept: %v", s.Tasks)
		}
		time.Sleep(6 * time.Second)
		if s := state(t, d, "R1"); s.Tasks[task.Cancelled] != 1 || s.Tasks[task.Pending] != 2 {
			t.Errorf("after the next count: %v", s.Tasks)
		}
		n := runs.counts.Load()
		time.Sleep(time.Minute)
		if more := runs.counts.Load() - n; n != 2 || more != 0 {
			t.Errorf("counted %d times, and %d times while nothing moved", n, more)
		}
	})
}
