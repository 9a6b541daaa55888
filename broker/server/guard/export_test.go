package guard

import (
	"log/slog"
	"net"
	"net/netip"
)

// NewConn guards a connection without a listener.
func NewConn(conn net.Conn, limits Limits) *Conn {
	w := newWire(conn, limits, nil)
	return newConn(w, w)
}

// Check walks one packet.
func Check(packet []byte, version byte) (byte, error) { return check(packet, version) }

// FrameSize reads a header.
func FrameSize(b []byte) (int, bool, error) { return frameSize(b) }

// ReadBuffer is how large the read buffer has grown.
func (c *Conn) ReadBuffer() int { return cap(c.in) }

// Enter counts a connection in.
func (c *Caps) Enter(addr netip.Addr) bool {
	_, ok := c.enter(addr)
	return ok
}

// Leave counts it out.
func (c *Caps) Leave(addr netip.Addr) { c.leave(addr) }

// NewAcceptor accepts for tests.
func NewAcceptor(base net.Listener, caps *Caps, log *slog.Logger) net.Listener {
	return newAcceptor(base, Options{Caps: caps, Logger: log})
}
