package guard

import (
	"log/slog"
	"net"
	"net/netip"
)

// NewConn guards a connection without a listener.
func NewConn(conn net.Conn, limits Limits) *Conn { return newConn(conn, conn, limits) }

// Check walks one packet.
func Check(packet []byte, version byte) (byte, error) { return check(packet, version) }

// FrameSize reads a header.
func FrameSize(b []byte) (int, bool, error) { return frameSize(b) }

// ReadBuffer is how large the read buffer has grown.
func (c *Conn) ReadBuffer() int { return cap(c.in) }

// Enter counts a connection in.
func (c *Caps) Enter(addr netip.Addr) bool { return c.enter(addr) }

// Leave counts it out.
func (c *Caps) Leave(addr netip.Addr) { c.leave(addr) }

// NewAcceptor accepts for tests.
func NewAcceptor(base net.Listener, caps *Caps) net.Listener {
	return newAcceptor(base, caps, slog.New(slog.DiscardHandler))
}
