package grant

import (
	"container/list"
	"time"
)

// claim is one terminal that waits for one task.
type claim struct {
	key   claimKey
	run   *run
	turn  uint64    // the order of asking
	asked time.Time // the last time it asked
	noted bool      // the store knows that it waits
	place *list.Element
}

type claimKey struct {
	task string
	who  terminal
}

// queue holds the claims that wait, one line a run in order of asking: a run
// at its limit is skipped whole.
type queue struct {
	claims     map[claimKey]*claim
	lines      map[string]*list.List // by run; never empty
	byTask     map[string]map[*claim]struct{}
	byTerminal map[terminal]map[*claim]struct{}
	turns      uint64
}

func newQueue() queue {
	return queue{
		claims:     map[claimKey]*claim{},
		lines:      map[string]*list.List{},
		byTask:     map[string]map[*claim]struct{}{},
		byTerminal: map[terminal]map[*claim]struct{}{},
	}
}

// ask puts a claim at the end of its run's line. One that waits already keeps
// its place; fresh tells whether it is new.
func (q *queue) ask(key claimKey, r *run, now time.Time) (c *claim, fresh bool) {
	if c = q.claims[key]; c != nil {
		c.asked = now
		return c, false
	}
	q.turns++
	c = &claim{key: key, run: r, turn: q.turns, asked: now}
	line := q.lines[r.RunID]
	if line == nil {
		line = list.New()
		q.lines[r.RunID] = line
	}
	c.place = line.PushBack(c)
	q.claims[key] = c
	index(q.byTask, key.task, c)
	index(q.byTerminal, key.who, c)
	return c, true
}

// drop takes a claim out. Dropping one that is out already is harmless.
func (q *queue) drop(c *claim) {
	if q.claims[c.key] != c {
		return
	}
	delete(q.claims, c.key)
	line := q.lines[c.run.RunID]
	line.Remove(c.place)
	if line.Len() == 0 {
		delete(q.lines, c.run.RunID)
	}
	unindex(q.byTask, c.key.task, c)
	unindex(q.byTerminal, c.key.who, c)
}

// dropTask takes every claim of a task out and returns them.
func (q *queue) dropTask(taskID string) []*claim {
	return q.dropAll(q.byTask[taskID])
}

// dropTerminal takes every claim of a terminal out and returns them.
func (q *queue) dropTerminal(who terminal) []*claim {
	return q.dropAll(q.byTerminal[who])
}

func (q *queue) dropAll(set map[*claim]struct{}) []*claim {
	out := make([]*claim, 0, len(set))
	for c := range set {
		out = append(out, c)
	}
	for _, c := range out {
		q.drop(c)
	}
	return out
}

func (q *queue) waits(c *claim) bool { return q.claims[c.key] == c }

func (q *queue) waiting(runID string) int {
	if line := q.lines[runID]; line != nil {
		return line.Len()
	}
	return 0
}

// first returns the first claim of a run's line that passes, and drops those
// on the way that were not repeated since oldest.
func (q *queue) first(runID string, oldest time.Time, passes func(*claim) bool) *claim {
	line := q.lines[runID]
	if line == nil {
		return nil
	}
	for place := line.Front(); place != nil; {
		c, next := place.Value.(*claim), place.Next()
		switch {
		case c.asked.Before(oldest):
			q.drop(c)
		case passes(c):
			return c
		}
		place = next
	}
	return nil
}

func index[K comparable](sets map[K]map[*claim]struct{}, key K, c *claim) {
	if sets[key] == nil {
		sets[key] = map[*claim]struct{}{}
	}
	sets[key][c] = struct{}{}
}

func unindex[K comparable](sets map[K]map[*claim]struct{}, key K, c *claim) {
	delete(sets[key], c)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
