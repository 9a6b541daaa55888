package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
	"muster/tests/load/crowd"
)

// lobby is a listener for connections over the network and for some that need no
// descriptor: a process has 20,000 of those, and both ends are in this one.
type lobby struct {
	net.Listener
	in     chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newLobby(base net.Listener) *lobby {
	l := &lobby{Listener: base, in: make(chan net.Conn), closed: make(chan struct{})}
	go func() {
		for {
			c, err := base.Accept()
			if err != nil || !l.enter(c) {
				return
			}
		}
	}()
	return l
}

func (l *lobby) enter(c net.Conn) bool {
	select {
	case l.in <- c:
		return true
	case <-l.closed:
		return false
	}
}

// Accept returns the next connection; it fails only once closed.
func (l *lobby) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener.
func (l *lobby) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// inside is headquarters' end of a connection in memory. It looks like one of this
// machine, and like a socket it takes what is written and hands it on by itself:
// writing never waits, so that no deadline for it passes.
type inside struct {
	net.Conn
	addr net.TCPAddr

	mu      sync.Mutex
	waiting []byte
	pumping bool
}

// RemoteAddr is a loopback address.
func (c *inside) RemoteAddr() net.Addr { return &c.addr }

// Write takes everything.
func (c *inside) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, b...)
	if !c.pumping {
		c.pumping = true
		go c.pump()
	}
	return len(b), nil
}

// pump hands on until nothing waits, or the other end is gone: then it stays
// marked as pumping, and whoever reads hears of the end.
func (c *inside) pump() {
	for {
		c.mu.Lock()
		out := c.waiting
		c.waiting = nil
		c.pumping = len(out) > 0
		c.mu.Unlock()
		if len(out) == 0 {
			return
		}
		if _, err := c.Conn.Write(out); err != nil {
			return
		}
	}
}

// SetWriteDeadline does nothing: writing takes no time.
func (c *inside) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is for reading alone.
func (c *inside) SetDeadline(at time.Time) error { return c.SetReadDeadline(at) }

var errClosed = errors.New("headquarters does not listen any more")

func (l *lobby) dial(context.Context, int) (net.Conn, error) {
	here, there := net.Pipe()
	if !l.enter(&inside{Conn: there, addr: net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}) {
		return nil, errClosed
	}
	return here, nil
}

// resident is a headquarters in this process.
type resident struct {
	lobby *lobby
	stop  func() error
}

func moveIn(ctx context.Context, file string) (*resident, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	r := &resident{}
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	opts := app.Options{Version: "load", Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready: func(string) { close(ready) },
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			base, err := (&net.ListenConfig{}).Listen(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if address != cfg.Broker.Listeners.TCP.Address {
				return base, nil
			}
			r.lobby = newLobby(base)
			return r.lobby, nil
		}}
	go func() { ended <- app.Run(ctx, cfg, opts) }()
	select {
	case <-ready:
		r.stop = func() error { cancel(); return <-ended }
		return r, nil
	case err := <-ended:
		cancel()
		return nil, err
	}
}

// inhabit connects a crowd over lobby.
func (r *resident) inhabit(ctx context.Context, o crowd.Options) (*crowd.Crowd, error) {
	o.Dial = r.lobby.dial
	c, err := crowd.New(o)
	if err != nil {
		return nil, err
	}
	return c, c.Connect(ctx)
}
