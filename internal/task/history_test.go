package task_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/task"
)

// office is headquarters without a database: many tasks, each moved by the table
// alone, under a cap on what runs. What terminals still hold of older grants may
// come at any time, twice or after years.
type office struct {
	cap   int
	tasks map[string]*held
	sent  []answer // everything that was granted: any of it may answer, again and again
}

// held is one task as the office has it.
type held struct {
	state    task.State
	attempts int // executions allowed
	ended    map[int]task.Event
	ends     int // terminal transitions
}

// answer is what a terminal may say about a grant.
type answer struct {
	id      string
	attempt int
}

// move applies an event of an attempt, 0 for the office's own word, and keeps the
// books.
func (h *held) move(t *rapid.T, e task.Event, of int) {
	before := h.state
	if of != 0 && of != before.Attempt {
		t.Fatalf("an answer of attempt %d moved %v", of, before)
	}
	next, err := before.Next(e)
	if err != nil {
		t.Fatalf("%s on %v: %v", e, before, err)
	}
	if before.Terminal() {
		t.Fatalf("%s left %v", e, before)
	}
	if e != task.Grant && before.Status == task.Running {
		if how, twice := h.ended[before.Attempt]; twice {
			t.Fatalf("attempt %d ended by %s and by %s", before.Attempt, how, e)
		}
		h.ended[before.Attempt] = e
	}
	if h.state = next; next.Terminal() {
		h.ends++
	}
}

// take judges an answer by the fence: only that of the running attempt counts.
func (o *office) take(t *rapid.T, a answer, good bool) {
	h := o.tasks[a.id]
	if h.state.Status != task.Running || h.state.Attempt != a.attempt {
		return
	}
	h.move(t, verdict(good, h.state.Attempt < h.attempts), a.attempt)
}

func verdict(good, again bool) task.Event {
	switch {
	case good:
		return task.Succeed
	case again:
		return task.Fail
	}
	return task.GiveUp
}

// in lists the ids of the tasks for which holds is true, in order.
func (o *office) in(holds func(*held) bool) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(o.tasks)) {
		if holds(o.tasks[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func running(h *held) bool { return h.state.Status == task.Running }
func open(h *held) bool    { return !h.state.Terminal() }

// pick draws one of the tasks for which holds is true; rapid tries another step
// when there is none.
func (o *office) pick(t *rapid.T, holds func(*held) bool) (string, *held) {
	ids := o.in(holds)
	if len(ids) == 0 {
		t.Skip("there is none")
	}
	id := rapid.SampledFrom(ids).Draw(t, "task")
	return id, o.tasks[id]
}

// steps is what may happen, in any order.
func (o *office) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"order": func(t *rapid.T) {
			id := fmt.Sprintf("t%02d", len(o.tasks))
			o.tasks[id] = &held{state: task.State{Status: task.Pending}, attempts: rapid.IntRange(1, 3).Draw(t, "attempts"), ended: map[int]task.Event{}}
		},
		"claim": func(t *rapid.T) {
			id, h := o.pick(t, func(h *held) bool { return open(h) && !running(h) })
			if len(o.in(running)) >= o.cap {
				return // it waits
			}
			h.move(t, task.Grant, 0)
			o.sent = append(o.sent, answer{id, h.state.Attempt})
		},
		"answer": func(t *rapid.T) {
			if len(o.sent) == 0 {
				t.Skip("nothing was granted")
			}
			o.take(t, rapid.SampledFrom(o.sent).Draw(t, "answer"), rapid.Bool().Draw(t, "good"))
		},
		"lease ends": func(t *rapid.T) {
			id, h := o.pick(t, running)
			o.take(t, answer{id, h.state.Attempt}, false)
		},
		"cancel": func(t *rapid.T) {
			_, h := o.pick(t, open)
			h.move(t, task.Cancel, 0)
		},
		"give up the wait": func(t *rapid.T) {
			_, h := o.pick(t, func(h *held) bool { return open(h) && h.state.Status == task.Failed })
			h.move(t, task.GiveUp, 0)
		},
		"knock on what is over": func(t *rapid.T) {
			_, h := o.pick(t, func(h *held) bool { return !open(h) })
			e := rapid.SampledFrom(task.Events()).Draw(t, "event")
			if next, err := h.state.Next(e); err == nil {
				t.Fatalf("%s led from %v to %v", e, h.state, next)
			}
		},
		"": o.holds,
	}
}

// holds is checked after every step.
func (o *office) holds(t *rapid.T) {
	if n := len(o.in(running)); n > o.cap {
		t.Fatalf("%d run, the cap is %d", n, o.cap)
	}
	granted := map[answer]int{}
	for _, a := range o.sent {
		if granted[a]++; granted[a] > 1 {
			t.Fatalf("attempt %d of %s was granted twice", a.attempt, a.id)
		}
	}
	for id, h := range o.tasks {
		s := h.state
		over := 0
		if s.Terminal() {
			over = 1
		}
		switch {
		case !s.Valid():
			t.Fatalf("%s is in the invalid %v", id, s)
		case h.ends != over:
			t.Fatalf("%s ended %d times and is in %v", id, h.ends, s)
		case s.Attempt > h.attempts:
			t.Fatalf("%s is at attempt %d of %d", id, s.Attempt, h.attempts)
		case s.Status == task.Succeeded && h.ended[s.Attempt] != task.Succeed:
			t.Fatalf("%s succeeded, and its attempt %d ended by %q", id, s.Attempt, h.ended[s.Attempt])
		}
		for n := 1; n < s.Attempt; n++ {
			if h.ended[n] != task.Fail {
				t.Fatalf("attempt %d of %s was granted over attempt %d, which ended by %q", s.Attempt, id, n, h.ended[n])
			}
		}
	}
}

// TestAnyHistoryOfManyTasksKeepsTheInvariants plays whole histories on the moves
// table. A failing one is shrunk, and repeated exactly by the seed that rapid
// prints.
func TestAnyHistoryOfManyTasksKeepsTheInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := &office{cap: rapid.IntRange(1, 3).Draw(t, "cap"), tasks: map[string]*held{}}
		t.Repeat(o.steps())
	})
}
