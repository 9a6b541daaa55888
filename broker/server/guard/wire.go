package guard

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// overflow is how far Write may exceed the write buffer before the connection
	// is given up: acknowledgements and answers go past WaitRoom.
	overflow = 1 << 20
	// writeChunk is the most that one write deadline covers, so that a slow
	// reader that makes progress is kept.
	writeChunk = 16 << 10
	// progress is how much of a packet must come for its connection to count as
	// alive. A large one over a slow link takes longer than the silence that is
	// allowed, and is no silence; a byte now and then is.
	progress = 1 << 10
	// closeGrace bounds how long a closing connection may take to send its last
	// packets.
	closeGrace = time.Second
	// deadlineSlack is how much earlier than asked a deadline may come, or a
	// sixteenth of its length if that is less: setting one costs as much as a small
	// packet does.
	deadlineSlack = time.Second
)

// ErrSlowReader ends a connection whose peer does not read.
var ErrSlowReader = errors.New("peer does not read what it is sent")

// wire is a socket whose writes never wait: what the socket does not take at once
// leaves in order from a goroutine of its own, which exists only while there is
// something to send. TLS and WebSocket stand on it. One goroutine may read; any
// may write, wait or close.
type wire struct {
	net.Conn
	direct *direct // nil: the socket cannot be tried without waiting
	limits Limits
	leave  func() // called once the socket is closed

	mu       sync.Mutex
	readBy   time.Time     // the read deadline that is set; zero: none
	silence  time.Duration // what it allowed; 0: it does not run anew
	came     int           // bytes since it was set
	room     *sync.Cond
	pending  []byte
	queued   int // pending plus what the flusher is writing
	flushing bool
	closing  bool
	closeBy  time.Time
	cause    error
	once     sync.Once
	done     chan struct{}
}

func newWire(conn net.Conn, limits Limits, leave func()) *wire {
	w := &wire{Conn: conn, direct: newDirect(conn), limits: limits, leave: leave, done: make(chan struct{})}
	w.room = sync.NewCond(&w.mu)
	return w
}

// Write sends p or queues it, and returns at once. It fails when the connection
// is closing, or closes it when far too much is waiting.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closing:
		return 0, net.ErrClosed
	case w.queued+len(p) > w.limits.WriteBuffer+overflow+w.limits.MaxPacketBytes:
		w.failLocked(ErrSlowReader)
		return 0, ErrSlowReader
	}
	rest := p
	if w.direct != nil && !w.flushing {
		n, err := w.direct.write(p)
		if err != nil {
			w.failLocked(fmt.Errorf("cannot send: %w", err))
			return n, err
		}
		rest = p[n:]
	}
	if len(rest) > 0 {
		w.pending = append(w.pending, rest...)
		w.queued += len(rest)
		if !w.flushing {
			w.flushing = true
			go w.flush()
		}
	}
	return len(p), nil
}

// WaitRoom blocks while more than the write buffer is waiting to leave. It
// returns when there is room or the connection closes; the write deadline
// bounds how long that takes.
func (w *wire) WaitRoom() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.queued > w.limits.WriteBuffer && !w.closing {
		w.room.Wait()
	}
}

// HasRoom reports whether WaitRoom would return at once.
func (w *wire) HasRoom() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued <= w.limits.WriteBuffer
}

// over reports whether nothing is taken any more.
func (w *wire) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

// flush sends until nothing is pending, then ends.
func (w *wire) flush() {
	var spare []byte
	var until time.Time
	for {
		buf, shut := w.take(spare)
		if shut {
			w.shut()
		}
		if buf == nil {
			return
		}
		var err error
		if until, err = w.send(buf, until); err != nil {
			w.fail(fmt.Errorf("cannot send: %w", err))
			w.shut()
			return
		}
		spare = nil
		if cap(buf) <= keepBuffer {
			spare = buf
		}
	}
}

// take returns what is pending. When that is nothing, the flusher is over and
// keeps no buffer; shut says that the socket is to be closed then.
func (w *wire) take(spare []byte) (buf []byte, shut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		buf, w.pending = w.pending, spare[:0]
		return buf, false
	}
	w.pending, w.flushing = nil, false
	if !w.closing {
		_ = w.Conn.SetWriteDeadline(time.Time{}) // fails only when closed
	}
	return nil, w.closing
}

// send writes buf; until is the deadline that is set, and it returns the new one.
func (w *wire) send(buf []byte, until time.Time) (time.Time, error) {
	for len(buf) > 0 {
		chunk := buf[:min(len(buf), writeChunk)]
		var err error
		if until, err = w.writeBy(until); err != nil {
			return until, err
		}
		n, err := w.Conn.Write(chunk)
		if err != nil {
			return until, err
		}
		buf = buf[n:]
		w.mu.Lock()
		w.queued -= n
		w.room.Broadcast()
		w.mu.Unlock()
	}
	return until, nil
}

// writeBy sets the deadline of the next chunk, unless the one that is set is
// good: that of a closing connection, or one hardly older.
func (w *wire) writeBy(until time.Time) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Now().Add(w.limits.WriteDeadline)
	if w.closing || !later(next, until, w.limits.WriteDeadline) {
		return until, nil
	}
	return next, w.Conn.SetWriteDeadline(next)
}

// later reports whether a deadline of some length is worth to be set in place of
// an older one.
func later(next, set time.Time, length time.Duration) bool {
	gain := next.Sub(set)
	return set.IsZero() || gain < 0 || gain > min(deadlineSlack, length/16)
}

func (w *wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *wire) failLocked(err error) {
	if w.cause == nil && !w.closing {
		w.cause = err
	}
	if w.closeLocked() {
		go w.shut()
	}
}

// Close stops reading at once, lets what is queued leave within a second and
// closes the socket. It returns without waiting for that; see Done.
func (w *wire) Close() error {
	w.mu.Lock()
	idle := w.closeLocked()
	w.mu.Unlock()
	if idle {
		w.shut()
	}
	return nil
}

// closeLocked begins to close. It reports whether nothing waits to leave, so that
// the socket is to be shut now.
func (w *wire) closeLocked() (idle bool) {
	if w.closing {
		return false
	}
	w.closing = true
	w.closeBy = time.Now().Add(closeGrace)
	w.room.Broadcast()
	_ = w.Conn.SetReadDeadline(time.Unix(1, 0)) // fails only when closed already
	if w.flushing {
		_ = w.Conn.SetWriteDeadline(w.closeBy)
	}
	return !w.flushing
}

func (w *wire) shut() {
	w.once.Do(func() {
		_ = w.Conn.Close()
		if w.leave != nil {
			w.leave()
		}
		close(w.done)
	})
}

// Done is closed once the socket is.
func (w *wire) Done() <-chan struct{} { return w.done }

// Cause is why the guard itself ended the connection, nil when it did not.
func (w *wire) Cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// Read reads from the socket.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.hear(n)
	return n, err
}

// hear lets the read deadline run anew when a packet makes progress.
func (w *wire) hear(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.came += n; w.came < progress || w.silence <= 0 {
		return
	}
	w.came = 0
	_ = w.readUntil(time.Now().Add(w.silence), w.silence) // fails only when closed
}

// allow bounds the next reads to how long the peer may be silent from now on: the
// time runs anew as a packet makes progress. The zero time: no bound.
func (w *wire) allow(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silence, w.came = 0, 0
	if !t.IsZero() {
		w.silence = time.Until(t)
	}
	return w.readUntil(t, w.silence)
}

// readUntil sets the read deadline, unless the one that is set is hardly older.
// It does nothing once closing.
func (w *wire) readUntil(t time.Time, length time.Duration) error {
	switch {
	case w.closing:
		return net.ErrClosed
	case !t.IsZero() && !later(t, w.readBy, length), t.IsZero() && w.readBy.IsZero():
		return nil
	}
	w.readBy = t
	return w.Conn.SetReadDeadline(t)
}

// SetReadDeadline bounds the next reads, whatever comes until then.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return net.ErrClosed
	}
	w.silence, w.readBy = 0, t
	return w.Conn.SetReadDeadline(t)
}

// SetDeadline bounds reads only; writes have deadlines of their own.
func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// SetWriteDeadline does nothing: each 16 KiB has a deadline of its own.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
