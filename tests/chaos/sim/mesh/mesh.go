// Package mesh is a network in memory whose lines go bad on demand: hosts listen
// and dial as over TCP, and a test cuts, delays, throttles, half-opens and
// freezes what lies between them.
//
// Everything in it waits on channels and timers, never under a lock, so that it
// lives in a synctest bubble. A stream loses no byte in its middle and never
// reorders: what TCP cannot do is not done here.
package mesh

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

// Mesh joins hosts. Safe for concurrent use.
type Mesh struct {
	mu     sync.Mutex
	rng    *rand.Rand
	listen map[string]*listener // by address
	ports  int
	hosts  byte
}

// New is an empty network. The seed decides the jitter.
func New(seed uint64) *Mesh {
	return &Mesh{rng: rand.New(rand.NewPCG(seed, 1)), listen: map[string]*listener{}}
}

// Line is what a host's way to everybody else is like. The zero value is
// perfect.
type Line struct {
	Latency        time.Duration
	Jitter         time.Duration // at most this much more, for each write
	BytesPerSecond int           // 0: no limit
	// HeldUntil is when the line works again: until then what is sent waits, and
	// who dials too.
	HeldUntil time.Time
}

// Host is one machine, or one life of a program on it. Safe for concurrent use.
type Host struct {
	mesh *Mesh
	ip   net.IP

	mu     sync.Mutex
	line   Line
	frozen bool
	ends   map[*end]bool
	open   []*listener
}

// Host adds one.
func (m *Mesh) Host() *Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts++
	return &Host{mesh: m, ip: net.IPv4(10, 0, 0, m.hosts), ends: map[*end]bool{}}
}

// Shape changes the host's line, for what is sent and received from now on.
func (h *Host) Shape(line Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line = line
}

// Line is what the host's line is like now.
func (h *Host) Line() Line {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.line
}

// Cut resets every connection of the host: both ends see it at once.
func (h *Host) Cut() {
	for _, e := range h.all() {
		e.reset(true)
	}
}

// HalfOpen breaks every connection of the host so that one end does not know:
// what it sends vanishes. The host itself sees a reset when here is true, the
// far ends otherwise.
func (h *Host) HalfOpen(here bool) {
	for _, e := range h.all() {
		e.vanish()
		if here {
			e.reset(false)
		} else {
			e.far.reset(false)
		}
	}
}

// BlackHole makes every byte of the connections that are open now vanish, both
// ways, and nobody is told.
func (h *Host) BlackHole() {
	for _, e := range h.all() {
		e.vanish()
	}
}

// Freeze takes the host off the network for good: its own ends break, nothing
// leaves it any more and it reaches nobody. The far ends see a reset when told
// is true, nothing otherwise.
func (h *Host) Freeze(told bool) {
	h.mu.Lock()
	h.frozen = true
	open := h.open
	h.open = nil
	h.mu.Unlock()
	for _, l := range open {
		_ = l.Close() // never fails
	}
	if told {
		h.Cut()
	} else {
		h.HalfOpen(true)
	}
}

func (h *Host) all() (list []*end) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.ends {
		list = append(list, e)
	}
	return list
}

// holds takes a connection in; a frozen host has none.
func (h *Host) holds(e *end) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.frozen {
		h.ends[e] = true
	}
	return !h.frozen
}

func (h *Host) drop(e *end) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ends, e)
}

// random is below most.
func (m *Mesh) random(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.rng.Int64N(int64(most)))
}

// Listen opens a listener; its signature is net.ListenConfig's. Port 0 is any.
func (h *Host) Listen(_ context.Context, network, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	m := h.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	if port == "0" {
		m.ports++
		port = fmt.Sprint(40000 + m.ports)
	}
	address = net.JoinHostPort(host, port)
	if m.listen[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: syscall.EADDRINUSE}
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	l := &listener{host: h, at: at, name: address, coming: make(chan net.Conn, backlog), closed: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen {
		return nil, &net.OpError{Op: "listen", Net: network, Err: syscall.ENETDOWN}
	}
	h.open = append(h.open, l)
	m.listen[address] = l
	return l, nil
}

// Dial opens a connection; its signature is net.Dialer's. While the line is held
// it waits.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Net: network, Err: err} }
	for {
		line := h.Line()
		wait := max(line.Latency+h.mesh.random(line.Jitter), time.Until(line.HeldUntil))
		if wait <= 0 {
			break
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fail(ctx.Err())
		case <-timer.C:
		}
		if !time.Now().Before(h.Line().HeldUntil) {
			break
		}
	}
	m := h.mesh
	m.mu.Lock()
	l := m.listen[address]
	m.ports++
	from := &net.TCPAddr{IP: h.ip, Port: 40000 + m.ports}
	m.mu.Unlock()
	if l == nil {
		return fail(syscall.ECONNREFUSED)
	}
	near, far := pair(h, l.host, from, l.at)
	if !h.holds(near) {
		return fail(syscall.ENETDOWN)
	}
	if !l.host.holds(far) || !l.take(far) {
		near.reset(true)
		return fail(syscall.ECONNREFUSED)
	}
	return near, nil
}

// backlog is how many connections wait to be accepted.
const backlog = 1024

type listener struct {
	host   *Host
	at     net.Addr
	name   string
	coming chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) take(c net.Conn) bool {
	select {
	case l.coming <- c:
		return true
	default:
		return false
	}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.coming:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.at, Err: net.ErrClosed}
	}
}

// Addr is where it listens.
func (l *listener) Addr() net.Addr { return l.at }

// Close may be called twice. Connections that nobody accepted are reset.
func (l *listener) Close() error {
	l.once.Do(func() {
		m := l.host.mesh
		m.mu.Lock()
		if m.listen[l.name] == l {
			delete(m.listen, l.name)
		}
		m.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.coming:
				_ = c.Close() // never fails
			default:
				return
			}
		}
	})
	return nil
}

// Pipe is a connection inside one machine: nothing delays it, and no fault.
func (m *Mesh) Pipe() (near, far net.Conn) {
	h := m.Host()
	a, b := pair(h, h, &net.TCPAddr{IP: h.ip, Port: 1}, &net.TCPAddr{IP: h.ip, Port: 2})
	return a, b
}
