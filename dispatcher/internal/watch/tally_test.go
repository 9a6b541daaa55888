package watch_test

import (
	"context"
	"encoding/json"
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
	before atomic.Pointer[func()] // each count
}

func (s *slowRuns) CountTasks(ctx context.Context, runID string) (map[task.Status]int, int, error) {
	s.counts.Add(1)
	if before := s.before.Load(); before != nil {
		(*before)()
	}
	time.Sleep(100 * time.Millisecond)
	return s.Store.CountTasks(ctx, runID)
}

// slow is a desk whose runs take long to count. feed, if any, stands between the
// store and the watch.
func slow(t *testing.T, feed func(*desk, []store.Change)) (*desk, *slowRuns) {
	t.Helper()
	d := &desk{}
	if feed == nil {
		feed = func(d *desk, changes []store.Change) { d.hears.Load().Changed(changes) }
	}
	d.Bench = steptest.New(t, func(changes []store.Change) { feed(d, changes) })
	runs := &slowRuns{Store: d.Store}
	d.use(watch.New(runs, d.Sender, func(string) int { return 7 }, nil, d.Logger))
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

// counted checks that every state of R1 has so many tasks in all, and that none has
// fewer cancelled than one before, or more than there are. It returns the last.
func counted(t *testing.T, d *desk, tasks, cancelled int) protocol.RunStateReport {
	t.Helper()
	var last protocol.RunStateReport
	for _, sent := range d.Broker.Sent() {
		if sent.Topic != d.Sender.Topics().Run("R1", protocol.RunState) {
			continue
		}
		var s protocol.RunStateReport
		if err := json.Unmarshal(sent.Payload, &s); err != nil {
			t.Fatal(err)
		}
		if s.Tasks[task.Cancelled]+s.Tasks[task.Pending] != tasks || s.Tasks[task.Cancelled] < last.Tasks[task.Cancelled] || s.Tasks[task.Cancelled] > cancelled {
			t.Fatalf("at %s: %v after %v", s.At.Format(time.TimeOnly), s.Tasks, last.Tasks)
		}
		last = s
	}
	return last
}

// TestALargeRunIsNotCountedForEveryState, and its state is right all the same.
func TestALargeRunIsNotCountedForEveryState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds = 60
		d, runs := slow(t, nil)
		defer d.Stop()
		d.Create("R1", seconds, steptest.Policy())
		time.Sleep(2 * time.Second)
		for i := range seconds - 1 {
			cancel(t, d, i)
			time.Sleep(1500 * time.Millisecond)
			if s := counted(t, d, seconds, i+1); s.Tasks[task.Cancelled] != i+1 {
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
		if s := counted(t, d, seconds, seconds); s.Phase != protocol.PhaseClosed || s.Tasks[task.Cancelled] != seconds || len(s.Tasks) != 1 {
			t.Errorf("after the close: %+v", s)
		}
		n := runs.counts.Load()
		time.Sleep(time.Minute)
		if more := runs.counts.Load() - n; more != 0 {
			t.Errorf("counted %d times after the close", more)
		}
	})
}

// TestAMoveDuringACountIsNotSaidTwice: it stands in the count, and its change comes
// after it, in a run that is followed and in one that is older than the watch.
func TestAMoveDuringACountIsNotSaidTwice(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const stores, most = 60, 12 // counts, one in 5 s
			d, runs := slow(t, nil)
			d.Create("R1", stores, steptest.Policy())
			if restarted {
				time.Sleep(2 * time.Second)
				d.Stop()
				d.use(watch.New(runs, d.Sender, func(string) int { return 7 }, nil, d.Logger))
				if err := d.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			defer d.Stop()
			next := 0
			before := func() {
				if next < 5 {
					cancel(t, d, next)
					next++
				}
			}
			runs.before.Store(&before)
			for i := 10; i < stores; i++ {
				cancel(t, d, i)
				time.Sleep(700 * time.Millisecond)
				counted(t, d, stores, stores)
			}
			time.Sleep(20 * time.Second)
			if s := counted(t, d, stores, 55); s.Tasks[task.Cancelled] != 55 {
				t.Errorf("restarted %t: in the end %v", restarted, s.Tasks)
			}
			n := runs.counts.Load()
			if !restarted && n > most {
				t.Errorf("counted %d times, at most %d are right", n, most)
			}
			time.Sleep(time.Minute)
			if more := runs.counts.Load() - n; more != 0 {
				t.Errorf("restarted %t: counted %d times while nothing moved", restarted, more)
			}
			cancel(t, d, 5)
			time.Sleep(1500 * time.Millisecond)
			if _, err := d.Store.CloseRun(t.Context(), "R1", task.ReasonExpired, time.Now()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1500 * time.Millisecond)
			if s := counted(t, d, stores, stores); s.Phase != protocol.PhaseClosed || s.Tasks[task.Cancelled] != stores {
				t.Errorf("restarted %t: after the close %s, %v", restarted, s.Phase, s.Tasks)
			}
		})
	}
}

// TestMovesThatWereNotToldAreFoundByCounting: the feed forgets one, or so many wait
// that the oldest are dropped.
func TestMovesThatWereNotToldAreFoundByCounting(t *testing.T) {
	t.Parallel()
	flood := make([]store.Change, 200_001) // of a run that nobody knows
	for i := range flood {
		flood[i] = store.Change{Kind: store.TaskMoved, RunID: "R2"}
	}
	for name, feed := range map[string]func(*desk, []store.Change){
		"forgotten": func(*desk, []store.Change) {},
		"dropped": func(d *desk, changes []store.Change) {
			d.hears.Load().Changed(append(changes[:len(changes):len(changes)], flood...))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var lossy atomic.Bool
			d, _ := slow(t, func(d *desk, changes []store.Change) {
				if lossy.Load() {
					feed(d, changes)
				} else {
					d.hears.Load().Changed(changes)
				}
			})
			defer d.Stop()
			d.Create("R1", 5, steptest.Policy())
			time.Sleep(2 * time.Second)
			cancel(t, d, 0)
			time.Sleep(1500 * time.Millisecond) // before it is counted
			lossy.Store(true)
			cancel(t, d, 1)
			time.Sleep(1500 * time.Millisecond)
			if s := counted(t, d, 5, 2); name == "dropped" && s.Tasks[task.Cancelled] != 2 {
				t.Errorf("%s: %v", name, s.Tasks)
			}
			lossy.Store(false)
			cancel(t, d, 2)
			time.Sleep(20 * time.Second)
			if s := counted(t, d, 5, 3); s.Tasks[task.Cancelled] != 3 {
				t.Errorf("%s: %v", name, s.Tasks)
			}
			cancel(t, d, 3)
			time.Sleep(4 * time.Second)
			if s := counted(t, d, 5, 4); s.Tasks[task.Cancelled] != 4 {
				t.Errorf("%s, and one more: %v", name, s.Tasks)
			}
		})
	}
}
