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
	// firstRead is the read buffer of a connection that cannot wait without one.
	firstRead = 512
	// keepBuffer is how large the buffers are that connections share; most packets
	// of a terminal fit.
	keepBuffer = 4 << 10
)

// buffers hold what came to a connection until it is read. An idle one has none.
var buffers sync.Pool

func takeBuffer() *[keepBuffer]byte {
	if buf, ok := buffers.Get().(*[keepBuffer]byte); ok {
		return buf
	}
	return new([keepBuffer]byte)
}

// Limits bound one connection. All of them must be positive.
type Limits struct {
	ConnectDeadline time.Duration // from accept to a complete CONNECT, handshakes included
	WriteDeadline   time.Duration // for each 16 KiB to leave
	MaxControlBytes int           // size of CONNECT, and of any packet that is not PUBLISH
	MaxPacketBytes  int           // size of a PUBLISH packet
	WriteBuffer     int           // bytes waiting to leave before WaitRoom waits
}

// Conn is a guarded connection. Reads return bytes of whole, well-formed
// packets; writes return at once and leave in order. One goroutine may read; any
// may write, wait or close.
type Conn struct {
	*wire
	inner  net.Conn  // the wire, or TLS or WebSocket on it
	secure *tls.Conn // nil: plain

	held held

	in      []byte // in[head:tail] is read, the first ready bytes of it checked
	head    int
	tail    int
	ready   int
	version byte
}

// newConn guards inner, which stands on base: a wire, or TLS on one.
func newConn(inner, base net.Conn) *Conn {
	c := &Conn{inner: inner}
	if secure, ok := base.(*tls.Conn); ok {
		c.secure, base = secure, secure.NetConn()
	}
	c.wire, _ = base.(*wire) // whatever an acceptor admits is one
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
	c.advance(n)
	return n, nil
}

// advance goes on behind n of the bytes that are ready.
func (c *Conn) advance(n int) {
	c.head += n
	c.ready -= n
	if c.head == c.tail {
		c.release()
	}
}

// release gives up the buffer of a connection that has nothing left to read.
func (c *Conn) release() {
	c.head, c.tail = 0, 0
	if len(c.in) == keepBuffer {
		buffers.Put((*[keepBuffer]byte)(c.in))
	}
	if len(c.in) > firstRead {
		c.in = nil
	}
}

func (c *Conn) nextPacket() error {
	for {
		size, known, err := frameSize(c.in[c.head:c.tail])
		if err == nil && known {
			err = c.checkSize(size)
		}
		if err != nil {
			return c.refuse(err, false)
		}
		if known && c.tail-c.head >= size {
			version, err := check(c.in[c.head:c.head+size], c.version)
			if err != nil {
				return c.refuse(err, c.version == 0 && version == 5)
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
	if len(c.in) == 0 && c.inner == net.Conn(c.wire) && c.direct != nil {
		return c.first()
	}
	c.makeRoom()
	n, err := c.inner.Read(c.in[c.tail:])
	c.tail += n
	if n > 0 {
		return nil
	}
	return err
}

// makeRoom makes room for at least a byte. Who waits with little in hand gives the
// shared buffer back.
func (c *Conn) makeRoom() {
	held := c.in[c.head:c.tail]
	switch {
	case len(c.in) == keepBuffer && len(held) < firstRead:
		c.move(make([]byte, firstRead))
	case c.tail < len(c.in):
	case c.head > 0:
		c.head, c.tail = 0, copy(c.in, held)
	default:
		c.move(make([]byte, max(firstRead, 2*len(c.in))))
	}
}

// move takes what is read to another buffer.
func (c *Conn) move(to []byte) {
	tail := copy(to, c.in[c.head:c.tail])
	c.release()
	c.in, c.tail = to, tail
}

// first reads into a buffer that is taken only when there is something to read.
func (c *Conn) first() error {
	in, n, err := c.direct.first()
	c.in, c.tail = in, n
	c.hear(n)
	return err
}

// refuse tells a client of version 5 why it is closed; greets says that it is by its
// CONNECT.
func (c *Conn) refuse(err error, greets bool) error {
	var v *Violation
	switch {
	case !errors.As(err, &v):
	case greets:
		_, _ = c.Write([]byte{typeConnack << 4, 3, 0, v.Code, 0}) // it is closed either way
	case c.version == 5:
		_, _ = c.Write([]byte{typeDisconnect << 4, 1, v.Code}) // it is closed either way
	}
	return err
}

// Write sends what is held back and p, or queues it, and returns at once.
func (c *Conn) Write(p []byte) (int, error) {
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	return c.writeLocked(p)
}

// Close stops reading at once, lets what is queued leave within a second and
// closes the socket. It returns without waiting for that; see Done.
func (c *Conn) Close() error {
	_, _ = c.Write(nil) // what is held back; it is closed either way
	_ = c.inner.Close() // TLS says goodbye, which does not wait on a wire
	return c.wire.Close()
}

// Certificate is the one that the client has shown in its handshake, nil when
// there is none.
func (c *Conn) Certificate() *x509.Certificate {
	if c.secure == nil {
		return nil
	}
	if shown := c.secure.ConnectionState().PeerCertificates; len(shown) > 0 {
		return shown[0]
	}
	return nil
}

// SetDeadline bounds reads only; writes have deadlines of their own.
func (c *Conn) SetDeadline(t time.Time) error { return c.allow(t) }

// SetReadDeadline bounds the next reads; it is how long the peer may be silent
// from now on, and runs anew as a packet makes progress. It does nothing once
// closing.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.allow(t) }
