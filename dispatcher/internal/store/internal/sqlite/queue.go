package sqlite

import (
	"slices"
	"sync"
)

// queue is what waits for the writer, in the order in which it came. Its wake channel
// has a token while something may wait.
type queue struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []*request
	group   []*request // that was taken last
	closed  bool
}

// put adds a request, or returns false when nothing is taken any more.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, r)
	q.signal()
	return true
}

// drop takes a request out that still waits: its caller left, and on a disk that hangs
// each of its retries would wait behind it.
func (q *queue) drop(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, r); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take takes the next group: what waits already, up to maxBatch. What must be pinned
// ends its group. The group is good until the next is taken; what is not cleared in it
// stays in memory.
func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < min(len(q.waiting), maxBatch) {
		n++
		if q.waiting[n-1].op.Pin != nil {
			break
		}
	}
	q.group = append(q.group[:0], q.waiting[:n]...)
	left := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[left:])
	if q.waiting = q.waiting[:left]; left > 0 {
		q.signal()
	}
	return q.group
}

// close answers what waits, and whatever comes later, with ErrClosed.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, r := range q.waiting {
		r.err = ErrClosed
		close(r.done)
	}
	q.waiting = nil
}
