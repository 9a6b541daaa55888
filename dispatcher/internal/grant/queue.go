package grant

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"muster/dispatcher/internal/store"
)

// claim is one terminal that waits for one task.
type claim struct {
	key   claimKey
	run   *run
	turn  uint64      // the order of asking
	asked time.Time   // the last time it asked, by time.Now
	by    string      // the process of the terminal that asked last
	noted bool        // the store knows that it waits
	known *store.Task // as it was read for the claim; nil: it is not kept
}

type claimKey struct {
	task string
	who  terminal
}

// queue holds the claims that wait, one line a run in order of asking: a run
// at its limit is skipped whole.
type queue struct {
	claims     map[claimKey]*claim
	lines      map[string][]*claim // by run, in order of asking; never empty
	byTask     map[string][]*claim
	byTerminal map[terminal][]*claim
	turns      uint64
}

func newQueue() queue {
	return queue{
		claims:     map[claimKey]*claim{},
		lines:      map[string][]*claim{},
		byTask:     map[string][]*claim{},
		byTerminal: map[terminal][]*claim{},
	}
}

// ask puts a claim of a process at the end of its run's line. One that waits
// already keeps its place; fresh tells whether it is new.
func (q *queue) ask(key claimKey, by string, r *run, now time.Time) (c *claim, fresh bool) {
	if c = q.claims[key]; c != nil {
		c.asked, c.by = now, by
		return c, false
	}
	q.turns++
	c = &claim{key: key, run: r, turn: q.turns, asked: now, by: by}
	q.lines[r.RunID] = append(q.lines[r.RunID], c)
	q.claims[key] = c
	q.byTask[key.task] = append(q.byTask[key.task], c)
	q.byTerminal[key.who] = append(q.byTerminal[key.who], c)
	return c, true
}

// drop takes a claim out. Dropping one that is out already is harmless.
func (q *queue) drop(c *claim) {
	if q.claims[c.key] != c {
		return
	}
	delete(q.claims, c.key)
	q.leaveLine(c)
	unindex(q.byTask, c.key.task, c)
	unindex(q.byTerminal, c.key.who, c)
}

func (q *queue) leaveLine(c *claim) {
	line := q.lines[c.run.RunID]
	at, _ := slices.BinarySearchFunc(line, c.turn, func(other *claim, turn uint64) int { return cmp.Compare(other.turn, turn) })
	switch {
	case len(line) == 1:
		delete(q.lines, c.run.RunID)
	case at == 0: // the usual one: its turn came
		line[0] = nil
		q.lines[c.run.RunID] = line[1:]
	default:
		q.lines[c.run.RunID] = slices.Delete(line, at, at+1)
	}
}

// dropTask takes every claim of a task out and returns them.
func (q *queue) dropTask(taskID string) []*claim {
	return q.dropAll(q.byTask[taskID])
}

// dropTerminal takes every claim of a terminal out and returns them.
func (q *queue) dropTerminal(who terminal) []*claim {
	return q.dropAll(q.byTerminal[who])
}

func (q *queue) dropAll(claims []*claim) []*claim {
	out := slices.Clone(claims)
	for _, c := range out {
		q.drop(c)
	}
	return out
}

func (q *queue) waits(c *claim) bool { return q.claims[c.key] == c }

func (q *queue) waiting(runID string) int { return len(q.lines[runID]) }

// first returns the first claim of a run's line that passes.
func (q *queue) first(runID string, passes func(*claim) bool) *claim {
	for _, c := range q.lines[runID] {
		if passes(c) {
			return c
		}
	}
	return nil
}

func unindex[K comparable](lists map[K][]*claim, key K, c *claim) {
	if left := slices.DeleteFunc(lists[key], func(other *claim) bool { return other == c }); len(left) > 0 {
		lists[key] = left
	} else {
		delete(lists, key)
	}
}

// claimHeap has the claim whose turn it is first: by priority, then by asking.
type claimHeap []*claim

func (h claimHeap) Len() int      { return len(h) }
func (h claimHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h claimHeap) Less(i, j int) bool {
	if mine, theirs := h[i].run.Policy.Priority, h[j].run.Policy.Priority; mine != theirs {
		return mine > theirs
	}
	return h[i].turn < h[j].turn
}

// Push is for container/heap.
func (h *claimHeap) Push(x any) {
	if c, ok := x.(*claim); ok {
		*h = append(*h, c)
	}
}

// Pop is for container/heap.
func (h *claimHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}

// replaceFirst puts another claim in the place of the first, none for nil.
func (h *claimHeap) replaceFirst(c *claim) {
	if c == nil {
		heap.Pop(h)
		return
	}
	(*h)[0] = c
	heap.Fix(h, 0)
}
