package watch

import (
	"context"
	"fmt"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// countShare bounds the time that is spent on counting to a fiftieth: a count of
// 100,000 tasks takes a tenth of a second, and a run has a state every second.
const countShare = 50

// tally is how many tasks of an open run are in each status, and how many of its
// stores are online. Moves are added to the last count until the next. A move that was
// on its way while it was counted may stand in it twice until then.
type tally struct {
	tasks  map[task.Status]int // absent: none
	online int
	moved  bool      // since the count
	due    time.Time // the next count
}

// add notes a change of the store's feed. The sum stays: a move of a task that the
// tally does not have where it came from stands in it already.
func (w *Watch) add(c *store.Change) {
	t := w.tallies[c.RunID]
	if t == nil || c.Kind != store.TaskMoved || c.Task == nil {
		return
	}
	t.moved = true
	from, to := c.From.Status, c.Task.State.Status
	if t.tasks[from] == 0 {
		return
	}
	t.tasks[to]++
	if t.tasks[from]--; t.tasks[from] == 0 {
		delete(t.tasks, from)
	}
}

// lose notes that some moves were not told.
func (w *Watch) lose() {
	for _, t := range w.tallies {
		t.moved = true
	}
}

// tallied is the run's tally, which is counted if that is due.
func (w *Watch) tallied(ctx context.Context, run *store.Run) (*tally, error) {
	if t := w.tallies[run.RunID]; t != nil && run.ClosedAt.IsZero() && time.Now().Before(t.due) {
		return t, nil
	}
	delete(w.tallies, run.RunID)
	t, err := w.count(ctx, run.RunID)
	if err == nil && run.ClosedAt.IsZero() {
		w.tallies[run.RunID] = t
	}
	return t, err
}

func (w *Watch) count(ctx context.Context, runID string) (*tally, error) {
	began := time.Now()
	tasks, _, err := w.runs.CountTasks(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("cannot count the tasks of run %s: %w", runID, err)
	}
	online, err := w.runs.CountOnline(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("cannot count who is online in run %s: %w", runID, err)
	}
	now := time.Now()
	return &tally{tasks: tasks, online: online, due: now.Add(countShare * now.Sub(began))}, nil
}

// unsure adds the runs that moved since their last count and may be counted again, and
// reports whether there are others.
func (w *Watch) unsure(dirty map[string]bool) (later bool) {
	for runID, t := range w.tallies {
		switch {
		case !t.moved:
		case time.Now().Before(t.due):
			later = true
		default:
			dirty[runID] = true
		}
	}
	return later
}
