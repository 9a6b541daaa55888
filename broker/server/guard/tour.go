package guard

import (
	"sync"
	"time"
)

// tourPause is how long what was written with WriteSoon waits for company at least, and
// half of what it waits at most: too short for anybody to feel it.
const tourPause = 2 * time.Millisecond

// crowd is how many must have come within a pause for company to be worth waiting for:
// 4,000 a second. With less to do a wait costs more than a write.
const crowd = 8

// Tour has what connections hold back leave: all that was written to one of them
// with WriteSoon meanwhile, in one system call. A write to a socket costs as much as
// everything else about a small packet. The zero value is ready, and is shared by the
// connections of a broker; it must not be copied. Safe for concurrent use.
type Tour struct {
	mu    sync.Mutex
	fresh []*Conn // that hold something since the last visit
	due   []*Conn // since the one before
	spare []*Conn
	goes  bool
	next  *time.Timer

	since        time.Time // when the count began
	came, before int       // since then, and in the pause before
}

// join puts a connection on the list, or returns false when that is not worth it.
func (t *Tour) join(c *Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.busy(time.Now()) {
		return false
	}
	t.fresh = append(t.fresh, c)
	switch {
	case t.goes:
		return true
	case t.next == nil:
		t.next = time.AfterFunc(tourPause, t.walk)
	default:
		t.next.Reset(tourPause)
	}
	t.goes = true
	return true
}

// busy counts one more, and reports whether many came lately.
func (t *Tour) busy(now time.Time) bool {
	switch gone := now.Sub(t.since); {
	case gone >= 2*tourPause:
		t.before, t.came, t.since = 0, 0, now
	case gone >= tourPause:
		t.before, t.came, t.since = t.came, 0, now
	}
	t.came++
	return max(t.came, t.before) >= crowd
}

// walk visits the connections that have waited for a whole pause, and comes again if
// others wait.
func (t *Tour) walk() {
	visited := t.turn()
	for _, c := range visited {
		c.visit()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(visited)
	t.spare = visited[:0]
	if t.goes = len(t.due)+len(t.fresh) > 0; t.goes {
		t.next.Reset(tourPause)
	}
}

func (t *Tour) turn() []*Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	visited := t.due
	t.due, t.fresh = t.fresh, t.spare
	return visited
}

// held is what a connection holds back.
type held struct {
	mu    sync.Mutex
	bytes []byte // of a shared buffer; nil: nothing
	due   bool   // it is on the list of a tour
}

// WriteSoon is Write for what may wait for company when there is much to do: it leaves
// with whatever is written next, when much has gathered, or on the tour. All of a
// connection leaves in the order in which it was written.
func (c *Conn) WriteSoon(p []byte, by *Tour) (int, error) {
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	if len(c.held.bytes)+len(p) > keepBuffer || c.over() || !c.held.due && !by.join(c) {
		return c.writeLocked(p)
	}
	c.held.due = true
	if c.held.bytes == nil {
		c.held.bytes = takeBuffer()[:0]
	}
	c.held.bytes = append(c.held.bytes, p...)
	return len(p), nil
}

// visit lets go what is held back.
func (c *Conn) visit() {
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	c.held.due = false
	_, _ = c.writeLocked(nil) // whoever reads hears of a connection that is over
}

// writeLocked sends what is held back, and p behind it.
func (c *Conn) writeLocked(p []byte) (int, error) {
	if c.held.bytes == nil {
		if len(p) == 0 {
			return 0, nil
		}
		return c.inner.Write(p)
	}
	waited, shared := len(c.held.bytes), (*[keepBuffer]byte)(c.held.bytes[:keepBuffer])
	c.held.bytes = append(c.held.bytes, p...)
	n, err := c.inner.Write(c.held.bytes)
	c.held.bytes = nil
	buffers.Put(shared)
	return max(0, n-waited), err
}
