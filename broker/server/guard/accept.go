package guard

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"muster/internal/logs"
)

// Caps counts open connections over all listeners. Zero limits mean none.
// Safe for concurrent use.
type Caps struct {
	total      int
	setting    string // that says total
	perAddress int
	spare      logs.Sparing // what is said of refusals

	mu     sync.Mutex
	open   int
	byAddr map[netip.Addr]int
}

// NewCaps limits open connections altogether, as setting says, and from one address.
// Loopback addresses count for the total only: whole fleets are simulated there.
func NewCaps(total int, setting string, perAddress int) *Caps {
	return &Caps{total: total, setting: setting, perAddress: perAddress, byAddr: map[netip.Addr]int{}}
}

// full is why a connection is one too many: the setting that says so, its value,
// and whom it counts.
type full struct {
	setting string
	most    int
	whom    string
}

// enter counts a connection in, or says that it is one too many.
func (c *Caps) enter(addr netip.Addr) (over full, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.total > 0 && c.open >= c.total:
		return full{c.setting, c.total, "everybody"}, false
	case c.perAddress > 0 && !addr.IsLoopback() && c.byAddr[addr] >= c.perAddress:
		return full{"limits.max_connections_per_address", c.perAddress, addr.String()}, false
	}
	c.open++
	c.byAddr[addr]++
	return full{}, true
}

func (c *Caps) leave(addr netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.byAddr[addr]--; c.byAddr[addr] <= 0 {
		delete(c.byAddr, addr)
	}
}

// tell says that a connection was refused, one line a minute of each cap and
// address: many terminals may stand behind one, and those beyond never get in.
func (c *Caps) tell(log *slog.Logger, remote net.Addr, over full) {
	leftOut, due := c.spare.Due(over.setting+" "+over.whom, time.Now())
	if !due {
		return
	}
	log.Warn("refused a connection over a cap: raise the setting if those who come are ours, such as terminals behind one address",
		"setting", over.setting, "cap", over.most, "remote", remote.String(), "left_out", leftOut)
}

// acceptor is a net.Listener that survives accept errors and enforces caps.
type acceptor struct {
	net.Listener
	opts   Options
	closed chan struct{}
	once   sync.Once
}

func newAcceptor(base net.Listener, opts Options) *acceptor {
	return &acceptor{Listener: base, opts: opts, closed: make(chan struct{})}
}

// Accept returns the next admitted connection, a wire; it fails only once closed.
// An accept error, such as having no file descriptor left, is waited out: 5 ms at
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
		a.opts.Logger.Warn("cannot accept a connection, trying again", "error", err, "delay", delay)
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
	if over, ok := a.opts.Caps.enter(addr); !ok {
		a.opts.Caps.tell(a.opts.Logger, conn.RemoteAddr(), over)
		_ = conn.Close()
		return nil
	}
	return newWire(conn, a.opts.Limits, func() { a.opts.Caps.leave(addr) })
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
