package mesh

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes may be under way before a write waits. It is large:
// who writes under a lock of its own must rarely wait, since in a bubble time
// stands still while anybody waits for that lock.
const window = 4 << 20

// end is one end of a connection.
type end struct {
	host     *Host
	far      *end
	from, to net.Addr
	in, out  *lane
	writing  chan struct{} // holds one token; see Lock
	turn     chan struct{} // one write after the other
}

// pair joins two hosts. Both lanes go over both lines.
func pair(a, b *Host, from, to net.Addr) (near, far *end) {
	out, in := newLane(a, b), newLane(b, a)
	near = &end{host: a, from: from, to: to, in: in, out: out, writing: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	far = &end{host: b, from: to, to: from, in: out, out: in, writing: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	near.far, far.far = far, near
	return near, far
}

// Read waits for what has arrived.
func (e *end) Read(p []byte) (int, error) {
	for {
		n, wait, changed, err := e.in.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, e.wrap("read", err)
		}
		pause(wait, changed)
	}
}

// Write hands p over as a whole, or waits for room.
func (e *end) Write(p []byte) (int, error) {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	for {
		done, wait, changed, err := e.out.put(p)
		if err != nil {
			return 0, e.wrap("write", err)
		}
		if done {
			return len(p), nil
		}
		pause(wait, changed)
	}
}

func (e *end) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // a reader's io.EOF is never wrapped
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: e.from, Addr: e.to, Err: err}
}

// pause waits until something changed, or for wait unless that is negative.
func pause(wait time.Duration, changed <-chan struct{}) {
	if wait < 0 {
		<-changed
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

// Close ends both directions; what was written still arrives. It may be called
// twice.
func (e *end) Close() error {
	e.in.stop(net.ErrClosed, syscall.EPIPE)
	e.out.finish()
	e.host.drop(e)
	return nil
}

// reset breaks this end, and the far one too when both is true.
func (e *end) reset(both bool) {
	e.in.stop(syscall.ECONNRESET, syscall.ECONNRESET)
	e.out.refuse(syscall.ECONNRESET)
	e.host.drop(e)
	if both {
		e.far.in.stop(syscall.ECONNRESET, syscall.ECONNRESET)
		e.far.out.refuse(syscall.ECONNRESET)
		e.far.host.drop(e.far)
	}
}

// vanish makes what is under way and what follows disappear, both ways.
func (e *end) vanish() {
	e.in.lose()
	e.out.lose()
}

// Lock and Unlock let several writes stand together: paho's client takes a
// connection that has them as safe for concurrent use.
func (e *end) Lock() { e.writing <- struct{}{} }

// Unlock undoes Lock.
func (e *end) Unlock() { <-e.writing }

// LocalAddr is this end's address.
func (e *end) LocalAddr() net.Addr { return e.from }

// RemoteAddr is the far end's address.
func (e *end) RemoteAddr() net.Addr { return e.to }

// SetDeadline bounds reads and writes, those that wait now too.
func (e *end) SetDeadline(t time.Time) error {
	e.in.until(t, true)
	e.out.until(t, false)
	return nil
}

// SetReadDeadline bounds reads.
func (e *end) SetReadDeadline(t time.Time) error { e.in.until(t, true); return nil }

// SetWriteDeadline bounds writes.
func (e *end) SetWriteDeadline(t time.Time) error { e.out.until(t, false); return nil }

// lane is one direction of a connection.
type lane struct {
	from, to *Host

	mu      sync.Mutex
	parts   []part
	held    int       // bytes in parts
	last    time.Time // when the newest part arrives
	ended   bool      // the writer has closed: io.EOF after the parts
	lost    bool      // bytes vanish
	readBy  time.Time // deadlines; zero: none
	writeBy time.Time
	readErr error // of every read
	wrErr   error // of every write
	changed chan struct{}
}

type part struct {
	bytes []byte
	at    time.Time
}

func newLane(from, to *Host) *lane { return &lane{from: from, to: to, changed: make(chan struct{})} }

// tell wakes everybody who waits; l.mu is held.
func (l *lane) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// take reads what has arrived, or says how long to wait: below 0 for ever.
func (l *lane) take(p []byte) (n int, wait time.Duration, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait = -1
	switch {
	case l.readErr != nil:
		return 0, 0, nil, l.readErr
	case !l.readBy.IsZero() && !now.Before(l.readBy):
		return 0, 0, nil, os.ErrDeadlineExceeded
	case len(l.parts) > 0 && !now.Before(l.parts[0].at):
		n = copy(p, l.parts[0].bytes)
		if l.parts[0].bytes = l.parts[0].bytes[n:]; len(l.parts[0].bytes) == 0 {
			l.parts = l.parts[1:]
		}
		l.held -= n
		l.tell()
		return n, 0, nil, nil
	case len(l.parts) > 0:
		wait = l.parts[0].at.Sub(now)
	case l.ended && !l.lost && !now.Before(l.last):
		return 0, 0, nil, io.EOF
	case l.ended && !l.lost:
		wait = l.last.Sub(now)
	}
	if !l.readBy.IsZero() && (wait < 0 || l.readBy.Sub(now) < wait) {
		wait = l.readBy.Sub(now)
	}
	return 0, wait, l.changed, nil
}

// put writes p when there is room, or says how long to wait.
func (l *lane) put(p []byte) (done bool, wait time.Duration, changed <-chan struct{}, err error) {
	arrives, takes := l.way(len(p))
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case l.wrErr != nil:
		return false, 0, nil, l.wrErr
	case !l.writeBy.IsZero() && !now.Before(l.writeBy):
		return false, 0, nil, os.ErrDeadlineExceeded
	case l.lost || len(p) == 0:
		return true, 0, nil, nil
	case l.held > 0 && l.held+len(p) > window:
		wait = -1
		if !l.writeBy.IsZero() {
			wait = l.writeBy.Sub(now)
		}
		return false, wait, l.changed, nil
	}
	l.last = later(l.last, arrives).Add(takes)
	l.parts = append(l.parts, part{append([]byte(nil), p...), l.last})
	l.held += len(p)
	l.tell()
	return true, 0, nil, nil
}

// way is when a write of now arrives at the earliest, and how long it takes to
// come in behind what is before it.
func (l *lane) way(bytes int) (at time.Time, takes time.Duration) {
	at = time.Now()
	for _, h := range []*Host{l.from, l.to} {
		line := h.Line()
		at = later(at, line.HeldUntil).Add(line.Latency + h.mesh.random(line.Jitter))
		if line.BytesPerSecond > 0 {
			takes += time.Duration(bytes) * time.Second / time.Duration(line.BytesPerSecond)
		}
	}
	return at, takes
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// finish says that the writer has closed. The end takes its way like bytes.
func (l *lane) finish() {
	arrives, _ := l.way(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended, l.last = true, later(l.last, arrives)
	}
	if l.wrErr == nil {
		l.wrErr = net.ErrClosed
	}
	l.tell()
}

// stop ends reading with one error and writing with another.
func (l *lane) stop(reads, writes error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readErr == nil {
		l.readErr = reads
	}
	if l.wrErr == nil && !l.lost {
		l.wrErr = writes
	}
	l.parts, l.held = nil, 0
	l.tell()
}

// refuse ends writing.
func (l *lane) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrErr == nil {
		l.wrErr = err
	}
	l.tell()
}

func (l *lane) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost, l.parts, l.held = true, nil, 0
	l.tell()
}

func (l *lane) until(t time.Time, reads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reads {
		l.readBy = t
	} else {
		l.writeBy = t
	}
	l.tell()
}
