package guard

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Caps counts open connections over all listeners. Zero limits mean none.
// Safe for concurrent use.
type Caps struct {
	total      int
	perAddress int

	mu      sync.Mutex
	open    int
	byAddr  map[netip.Addr]int
	refused uint64
}

// NewCaps limits open connections altogether and from one address. Loopback
// addresses count for the total only: whole fleets are simulated there.
func NewCaps(total, perAddress int) *Caps {
	return &Caps{total: total, perAddress: perAddress, byAddr: map[netip.Addr]int{}}
}

// enter counts a connection in, or says that it is one too many.
func (c *Caps) enter(addr netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.total > 0 && c.open >= c.total
	crowded := c.perAddress > 0 && !addr.IsLoopback() && c.byAddr[addr] >= c.perAddress
	if full || crowded {
		c.refused++
		return false
	}
	c.open++
	c.byAddr[addr]++
	return true
}

func (c *Caps) leave(addr netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.byAddr[addr]--; c.byAddr[addr] <= 0 {
		delete(c.byAddr, addr)
	}
}

// Refused is how many connections were turned away since the start.
func (c *Caps) Refused() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// acceptor is a net.Listener that survives accept errors and enforces caps.
type acceptor struct {
	net.Listener
	caps   *Caps
	logger *slog.Logger
	closed chan struct{}
	once   sync.Once
}

func newAcceptor(base net.Listener, caps *Caps, logger *slog.Logger) *acceptor {
	return &acceptor{Listener: base, caps: caps, logger: logger, closed: make(chan struct{})}
}

// Accept returns the next admitted connection; it fails only once closed. An
// accept error, such as having no file descriptor left, is waited out: 5 ms at
// first and a second at most.
func (a *acceptor) Accept() (net.Conn, error) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	for delay := shortest; ; {
		conn, err := a.Listener.Accept()
		if err == nil {
			if admitted := a.admit(conn); admitted != nil {
				return admitted, nil
			}
			delay = shortest
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		a.logger.Warn("cannot accept a connection, trying again", "error", err, "delay", delay)
		select {
		case <-a.closed:
			return nil, net.ErrClosed
		case <-time.After(delay):
		}
		delay = min(2*delay, longest)
	}
}

func (a *acceptor) admit(conn net.Conn) net.Conn {
	addr := AddressOf(conn)
	if !a.caps.enter(addr) {
		a.logger.Debug("refused a connection over the cap", "remote", conn.RemoteAddr().String())
		_ = conn.Close()
		return nil
	}
	return &counted{Conn: conn, leave: func() { a.caps.leave(addr) }}
}

func (a *acceptor) Close() error {
	a.once.Do(func() { close(a.closed) })
	return a.Listener.Close()
}

// AddressOf is the address of a connection's peer without its port, the zero
// one when it has none.
func AddressOf(conn net.Conn) netip.Addr {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// counted leaves the count when it is closed.
type counted struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.leave)
	return err
}
