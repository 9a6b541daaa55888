package barrier

import (
	"container/heap"
	"time"

	"muster/dispatcher/internal/store"
)

const (
	// nap bounds how late a step of headquarters' time is noticed, which comes only
	// while no run is before its barrier: timers follow the monotonic clock, ends of
	// make-up windows headquarters' time.
	nap = time.Second
	// hearing is how long nothing is due after a time in which headquarters did not
	// run: what stores said meanwhile is taken in first. A barrier may be late by a
	// second.
	hearing = 700 * time.Millisecond
	// longestHearing bounds it where headquarters stops again and again: then deadlines
	// are kept as well as such a machine can.
	longestHearing = 5 * time.Second
	// firstDelay and lastDelay bound the wait before failed work is tried again.
	firstDelay = time.Second
	lastDelay  = time.Minute
	// aside and apart keep the summaries of closed runs, when they are said again,
	// out of the way of what is due at a start.
	aside = 5 * time.Second
	apart = 50 * time.Millisecond
)

// run is what the loop knows of a run. The store knows all of it too.
type run struct {
	id          string
	barrierAt   time.Time
	makeupUntil time.Time

	// open counts unsettled tasks, and may be too low while moves made before
	// the last count are still on their way; at zero or below it is counted
	// again. settled is true once such a count said zero: tasks are frozen and
	// settle once, so that stays.
	open    int
	moves   int // seen since the last count began
	settled bool
	closed  bool

	parent  string   // of a retry
	handed  int      // the newest of a retry's revisions that its parent has been given
	retries []string // whose newest revisions are to be merged, each as often as it was given

	revision  int // the newest that is complete
	published int // the newest whose files are out, and marked

	word        *word     // the summary to be said next; nil: none but the newest again
	asked, told int       // how often the newest summary was to be said again, and was
	againAt     time.Time // not said again before; zero: at once

	lateFirst time.Time // of the late answers in no revision; zero if none
	lateLast  time.Time
	lateSeen  int

	state  errand // counts, judges, revises, ends
	output errand // publishes the files
	voice  errand // says summaries, alone: none that is older follows a newer one

	due   time.Time // when the clock is to look at it; zero: not by itself
	index int       // in the clock, -1 when it is not there
}

// word is a summary that is ready to be said.
type word struct{ say func() error }

// errand is one kind of work on a run, done by one goroutine at a time.
type errand struct {
	busy     bool
	notUntil time.Time // after a failure
	failures int
}

func (e *errand) failed(now time.Time) {
	e.notUntil = now.Add(min(firstDelay<<min(e.failures, 10), lastDelay))
	e.failures++
}

func (e *errand) succeeded() { e.notUntil, e.failures = time.Time{}, 0 }

// shift moves the pauses of a run; its deadlines stay where they are.
func (r *run) shift(by time.Duration) {
	for _, at := range []*time.Time{&r.lateFirst, &r.lateLast, &r.state.notUntil, &r.output.notUntil, &r.voice.notUntil, &r.againAt} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
}

func newRun(r *store.Run) *run {
	return &run{id: r.RunID, barrierAt: r.BarrierAt, makeupUntil: r.MakeupUntil, open: r.Targets,
		parent: r.ParentRun, handed: r.Merged, revision: r.Revision, published: r.Revision, closed: !r.ClosedAt.IsZero(), index: -1}
}

// action is what a run needs next.
type action int

const (
	none   action = iota
	count         // the unsettled tasks, because there may be none left
	judge         // close the barrier and make revision 1
	merge         // take in what a retry says
	hand          // give the newest revision to the run of which this is a retry
	revise        // make the next revision
	end           // close the run
)

// next says what the run needs and when. The order of the cases is the order
// of a run's life.
func (r *run) next(cfg *Config) (action, time.Time) {
	switch {
	case r.state.busy:
		return none, time.Time{}
	case r.revision > 0 && len(r.retries) > 0:
		return merge, r.state.notUntil
	case r.parent != "" && r.handed < r.revision:
		return hand, r.state.notUntil
	case r.closed && r.state.failures == 0:
		return none, time.Time{}
	case r.closed:
		return end, r.state.notUntil
	case r.open <= 0 && !r.settled:
		return count, r.state.notUntil
	case r.revision == 0 && r.settled:
		return judge, r.state.notUntil
	case r.revision == 0:
		return judge, latest(r.barrierAt, r.state.notUntil)
	case !r.lateFirst.IsZero():
		at := earliest(r.lateLast.Add(cfg.Quiet), r.lateFirst.Add(cfg.Longest))
		return revise, latest(earliest(at, r.makeupUntil), r.state.notUntil)
	case r.settled && r.published >= r.revision:
		return end, r.state.notUntil
	}
	return end, latest(r.makeupUntil, r.state.notUntil)
}

// unpublished reports whether a revision waits to be published, and until when
// not.
func (r *run) unpublished() (bool, time.Time) {
	return r.published < r.revision && !r.output.busy, r.output.notUntil
}

// unsaid reports whether a summary is to be said, and until when not. To say one
// again, a revision that waits comes first, unless it cannot be published.
func (r *run) unsaid() (bool, time.Time) {
	if r.word != nil {
		return !r.voice.busy, r.voice.notUntil
	}
	waits := r.published < r.revision && r.output.failures == 0
	return r.told < r.asked && r.revision > 0 && !waits && !r.output.busy && !r.voice.busy, latest(r.againAt, r.voice.notUntil)
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// clock is a heap of runs by when they are due; only those with something to
// wait for are in it.
type clock []*run

// set places, moves or removes the run. due is the moment to look at it.
func (c *clock) set(r *run, due time.Time, waiting bool) {
	switch {
	case !waiting && r.index >= 0:
		heap.Remove(c, r.index)
	case !waiting:
	case r.index >= 0:
		r.due = due
		heap.Fix(c, r.index)
	default:
		r.due = due
		heap.Push(c, r)
	}
}

// Len, Less, Swap, Push and Pop are container/heap's.
func (c clock) Len() int           { return len(c) }
func (c clock) Less(i, j int) bool { return c[i].due.Before(c[j].due) }
func (c clock) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].index, c[j].index = i, j
}

// Push appends a run.
func (c *clock) Push(x any) {
	r, ok := x.(*run)
	if !ok {
		return
	}
	r.index = len(*c)
	*c = append(*c, r)
}

// Pop takes the last run.
func (c *clock) Pop() any {
	last := len(*c) - 1
	r := (*c)[last]
	(*c)[last] = nil
	*c = (*c)[:last]
	r.index = -1
	return r
}
