// Package guard stands between the sockets and the MQTT library: it admits
// connections, reads whole and well-formed packets only, and never lets a peer
// that does not read hold up whoever writes to it.
//
// It knows no users and no topics, and it must not panic on any input.
package guard

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// firstRead is the read buffer a connection starts with; most packets of a
	// terminal fit.
	firstRead = 512
	// keepBuffer is how large a buffer an idle connection may keep.
	keepBuffer = 4 << 10
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
)

// ErrSlowReader ends a connection whose peer does not read.
var ErrSlowReader = errors.New("peer does not read what it is sent")

// Limits bound one connection. All of them must be positive.
type Limits struct {
	ConnectDeadline time.Duration // from accept to a complete CONNECT, handshakes included
	WriteDeadline   time.Duration // for each 16 KiB to leave
	MaxControlBytes int           // size of CONNECT, and of any packet that is not PUBLISH
	MaxPacketBytes  int           // size of a PUBLISH packet
	WriteBuffer     int           // bytes waiting to leave before WaitRoom waits
}

// Conn is a guarded connection. Reads return bytes of whole, well-formed
// packets; writes return at once and leave in order from a goroutine of their
// own, which exists only while there is something to send. One goroutine may
// read; any may write, wait or close.
type Conn struct {
	inner  net.Conn
	raw    net.Conn // the socket underneath, to hurry a blocked write
	limits Limits

	in      []byte // in[head:tail] is read, the first ready bytes of it checked
	head    int
	tail    int
	ready   int
	version byte

	mu       sync.Mutex
	silence  time.Duration // what the last read deadline allowed; 0: none
	came     int           // bytes since the read deadline was set
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

func newConn(inner, raw net.Conn, limits Limits) *Conn {
	c := &Conn{inner: inner, raw: raw, limits: limits, done: make(chan struct{})}
	c.room = sync.NewCond(&c.mu)
	return c
}

// Read fills p with bytes of packets that passed the checks. A packet that did
// not ends the connection: Read returns a *Violation, and a client of version 5
// is told its code.
func (c *Conn) Read(p []byte) (int, error) {
	if c.ready == 0 {
		if err := c.nextPacket(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in[c.head:c.head+c.ready])
	c.head += n
	c.ready -= n
	if c.head == c.tail {
		c.head, c.tail = 0, 0
		if cap(c.in) > keepBuffer {
			c.in = nil
		}
	}
	return n, nil
}

func (c *Conn) nextPacket() error {
	for {
		size, known, err := frameSize(c.in[c.head:c.tail])
		if err == nil && known {
			err = c.checkSize(size)
		}
		if err != nil {
			return c.refuse(err)
		}
		if known && c.tail-c.head >= size {
			version, err := check(c.in[c.head:c.head+size], c.version)
			if err != nil {
				return c.refuse(err)
			}
			c.version, c.ready = version, size
			return nil
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

func (c *Conn) checkSize(size int) error {
	limit := c.limits.MaxPacketBytes
	if c.version == 0 || c.in[c.head]>>4 != typePublish {
		limit = c.limits.MaxControlBytes
	}
	if size > limit {
		return &Violation{codeTooLarge, "packet too large"}
	}
	return nil
}

// fill reads once. The buffer doubles with what has arrived, never with what a
// header promises.
func (c *Conn) fill() error {
	if c.tail == len(c.in) {
		if c.head > 0 {
			c.tail = copy(c.in, c.in[c.head:c.tail])
			c.head = 0
		} else {
			bigger := make([]byte, max(firstRead, 2*len(c.in)))
			copy(bigger, c.in[:c.tail])
			c.in = bigger
		}
	}
	n, err := c.inner.Read(c.in[c.tail:])
	c.tail += n
	if n > 0 {
		c.hear(n)
		return nil
	}
	return err
}

// hear lets the read deadline run anew when a packet makes progress. A CONNECT
// has one deadline from its first byte to its last.
func (c *Conn) hear(n int) {
	if c.version == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.came += n; c.came < progress || c.silence <= 0 || c.closing {
		return
	}
	c.came = 0
	_ = c.raw.SetReadDeadline(time.Now().Add(c.silence)) // fails only when closed
}

// refuse tells a client of version 5 why it is closed.
func (c *Conn) refuse(err error) error {
	var v *Violation
	if c.version == 5 && errors.As(err, &v) {
		_, _ = c.Write([]byte{typeDisconnect << 4, 1, v.Code}) // it is closed either way
	}
	return err
}

// Close stops reading at once, lets what is queued leave within a second and
// closes the socket. It returns without waiting for that; see Done.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
	return nil
}

func (c *Conn) closeLocked() {
	if c.closing {
		return
	}
	c.closing = true
	c.closeBy = time.Now().Add(closeGrace)
	c.room.Broadcast()
	_ = c.raw.SetReadDeadline(time.Unix(1, 0)) // fails only when closed already
	if c.flushing {
		_ = c.raw.SetWriteDeadline(c.closeBy)
		return
	}
	go c.shut()
}

// shut closes the socket. TLS says goodbye first, which may block, so it runs
// outside the lock.
func (c *Conn) shut() {
	c.once.Do(func() {
		_ = c.raw.SetWriteDeadline(c.closeBy)
		_ = c.inner.Close()
		_ = c.raw.Close()
		close(c.done)
	})
}

// Done is closed once the socket is.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Cause is why the guard itself ended the connection, nil when it did not.
func (c *Conn) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// LocalAddr is the address the client came to.
func (c *Conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr is the client's address.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// Certificate is the one that the client has shown in its handshake, nil when
// there is none.
func (c *Conn) Certificate() *x509.Certificate {
	for _, conn := range []net.Conn{c.inner, c.raw} { // the raw one under WebSocket
		if secure, ok := conn.(*tls.Conn); ok {
			if shown := secure.ConnectionState().PeerCertificates; len(shown) > 0 {
				return shown[0]
			}
		}
	}
	return nil
}

// SetDeadline bounds reads only; writes have deadlines of their own.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline bounds the next reads; it is how long the peer may be silent
// from now on. It does nothing once closing.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	c.silence, c.came = 0, 0
	if !t.IsZero() {
		c.silence = time.Until(t)
	}
	return c.raw.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: each 16 KiB has a deadline of its own.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }
