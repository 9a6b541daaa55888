package watch

import (
	"context"
	"fmt"
	"maps"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// To count 100,000 tasks takes a tenth of a second, and a run has a state every
// second. These are the parts of the time that may be spent on it: while the moves of
// a run are known, and while its states are no younger than its counts.
const (
	followedShare = 50
	countedShare  = 20
)

// tally is how many tasks of an open run are in each status, and how many of its
// stores are online. What it says never goes back: a count may hold moves that the
// feed has not told yet, so the two are not mixed. Either the run was followed from
// its creation, and moves are all that it ever had, or the last count is what is said.
type tally struct {
	followed bool
	moves    map[task.Status]int // into it, less out of it
	tasks    map[task.Status]int // at the last count
	online   int
	settled  int // tasks that are over

	told   int  // quarters of the run that were reached, and told
	joined bool // it was not followed from its creation, and no quarter was looked at yet

	unsure bool      // it moved since the last count that agreed
	odd    bool      // the last count did not agree, and it did not move since
	due    time.Time // the next count
}

// add notes a change of the store's feed.
func (w *Watch) add(c *store.Change) {
	t := w.tallies[c.RunID]
	switch {
	case t == nil && c.Kind == store.RunCreated:
		w.tallies[c.RunID] = &tally{followed: true, moves: map[task.Status]int{}}
	case t != nil && c.Kind == store.TaskMoved && c.Task != nil:
		t.unsure, t.odd = true, false
		t.moves[c.From.Status]--
		t.moves[c.Task.State.Status]++
		if t.followed && !c.From.Settled && c.Task.State.Settled {
			t.settled++
		}
	}
}

// lose notes that some moves were not told: from now on it is counted.
func (w *Watch) lose() {
	for _, t := range w.tallies {
		if t.followed {
			t.followed, t.due = false, time.Time{}
		}
		t.unsure = true
	}
}

// now is how many tasks are in each status; absent: none.
func (t *tally) now() map[task.Status]int {
	if !t.followed {
		return t.tasks
	}
	now := maps.Clone(t.moves)
	for _, n := range t.tasks {
		now[task.Pending] += n // in which all begin
	}
	maps.DeleteFunc(now, func(_ task.Status, n int) bool { return n == 0 })
	return now
}

// tallied is the run's tally, counted anew if that is due. One that was not followed
// from the run's creation begins here.
func (w *Watch) tallied(ctx context.Context, run *store.Run) (*tally, error) {
	t := w.tallies[run.RunID]
	if t == nil || !run.ClosedAt.IsZero() {
		t = &tally{moves: map[task.Status]int{}, joined: true}
	}
	if !time.Now().Before(t.due) {
		if err := w.count(ctx, run.RunID, t); err != nil {
			return nil, err
		}
	}
	w.tallies[run.RunID] = t
	if !run.ClosedAt.IsZero() {
		delete(w.tallies, run.RunID)
	}
	return t, nil
}

// count also checks what was followed. A move that is on its way is told before the
// next count; what then still does not agree never will.
func (w *Watch) count(ctx context.Context, runID string, t *tally) error {
	began := time.Now()
	tasks, open, err := w.runs.CountTasks(ctx, runID)
	if err != nil {
		return fmt.Errorf("cannot count the tasks of run %s: %w", runID, err)
	}
	if t.online, err = w.runs.CountOnline(ctx, runID); err != nil {
		return fmt.Errorf("cannot count who is online in run %s: %w", runID, err)
	}
	t.tasks = tasks
	agreed := !t.followed || maps.Equal(tasks, t.now())
	if !agreed && t.odd {
		w.log.Warn("the moves of a run do not make what is counted; it is counted from now on", "run_id", runID)
		t.followed, agreed = false, true
	}
	if !t.followed {
		t.settled = -open
		for _, n := range tasks {
			t.settled += n
		}
	}
	t.unsure, t.odd = !agreed, !agreed
	share := countedShare
	if t.followed {
		share = followedShare
	}
	now := time.Now()
	t.due = now.Add(now.Sub(began) * time.Duration(share))
	return nil
}

// recount adds the runs that are due to be counted because they moved, and reports
// whether others will be.
func (w *Watch) recount(dirty map[string]bool) (later bool) {
	for runID, t := range w.tallies {
		switch {
		case !t.unsure:
		case time.Now().Before(t.due):
			later = true
		default:
			dirty[runID] = true
		}
	}
	return later
}
