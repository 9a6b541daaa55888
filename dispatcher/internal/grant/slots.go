package grant

import (
	"container/heap"
	"time"

	"muster/dispatcher/internal/store"
)

// slot is one place under the caps, taken for one attempt of one task.
type slot struct {
	task     string
	attempt  int // 0 until the grant is known to be committed
	attempts int // the number of the last that is allowed
	used     int // how many were granted, this one too
	run      *run
	holder   terminal
	instance string    // the process of the holder that may run it; "": any
	started  bool      // a sign of life was seen
	kept     bool      // the lease does not run: the result waits to be sent
	ending   bool      // the lease ended and is being settled
	resent   int       // how often a lost grant was said again
	until    time.Time // end of the lease, by Config.Awake
	heapAt   int       // position among the leases, -1 when the lease does not run
}

// takenUp says whether the process that asks may have the attempt: it is the one
// that it was granted to, or took up its work after a restart and has it from now
// on. Any other is a second machine with the terminal's identity, and the first
// may be running it.
func (sl *slot) takenUp(by asker) bool {
	switch sl.instance {
	case "", by.instance:
		return true
	case by.previous:
		sl.instance = by.instance
		return true
	}
	return false
}

// slots is the set of slots in use, keyed by task and attempt: giving the same
// attempt back twice changes nothing.
type slots struct {
	byTask map[string]*slot
	leases leaseHeap
	wake   chan struct{} // what ends first is another lease, or ends at another time
}

func newSlots() slots { return slots{byTask: map[string]*slot{}, wake: make(chan struct{}, 1)} }

// take adds a slot and counts it against its run.
func (s *slots) take(sl *slot) {
	sl.heapAt = -1
	sl.run.held++
	s.byTask[sl.task] = sl
}

// confirm says that the grant behind a slot is committed: it gets its numbers
// and its lease starts.
func (s *slots) confirm(sl *slot, t store.Task) {
	sl.attempt, sl.attempts, sl.used = t.State.Attempt, t.Attempts, t.Used()
	s.lease(sl, sl.until)
}

// of returns the slot of a task's attempt, or nil.
func (s *slots) of(taskID string, attempt int) *slot {
	sl := s.byTask[taskID]
	if sl == nil || sl.attempt != attempt || attempt == 0 {
		return nil
	}
	return sl
}

// giveBack frees a slot.
func (s *slots) giveBack(sl *slot) {
	if s.byTask[sl.task] != sl {
		return
	}
	delete(s.byTask, sl.task)
	sl.run.held--
	s.unlease(sl)
}

// lease lets the lease run to until.
func (s *slots) lease(sl *slot, until time.Time) {
	sl.until = until
	if sl.heapAt >= 0 {
		heap.Fix(&s.leases, sl.heapAt)
	} else {
		heap.Push(&s.leases, sl)
	}
	if sl.heapAt == 0 {
		signal(s.wake)
	}
}

// unlease stops the lease.
func (s *slots) unlease(sl *slot) {
	if sl.heapAt >= 0 {
		heap.Remove(&s.leases, sl.heapAt)
	}
}

// leaseHeap orders running leases by their end.
type leaseHeap []*slot

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}

// Push is for container/heap.
func (h *leaseHeap) Push(x any) {
	if sl, ok := x.(*slot); ok {
		sl.heapAt = len(*h)
		*h = append(*h, sl)
	}
}

// Pop is for container/heap.
func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	sl := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	sl.heapAt = -1
	return sl
}
