package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/listeners"
)

// Options shape a listener.
type Options struct {
	Limits Limits
	Caps   *Caps       // shared by all listeners of a broker
	TLS    *tls.Config // nil for a plain listener
	Logger *slog.Logger
	// Handle serves one connection, and returns when it is over. It must not panic.
	Handle func(c *Conn)
	// Goodbye, when set, tells the clients of a listener that is closing. The
	// library's own function for that can deadlock with a client that leaves:
	// it takes its read lock a second time while it holds it.
	Goodbye func(listener string)
}

func (o Options) goodbye(listener string) {
	if o.Goodbye != nil {
		o.Goodbye(listener)
	}
}

// Listener accepts MQTT over TCP or TLS for the MQTT library. It implements
// its listeners.Listener.
type Listener struct {
	id     string
	opts   Options
	accept *acceptor
	open   tracker
}

// NewListener serves MQTT on an open socket.
func NewListener(id string, base net.Listener, opts Options) *Listener {
	return &Listener{id: id, opts: opts, accept: newAcceptor(base, opts)}
}

// ID names the listener.
func (l *Listener) ID() string { return l.id }

// Address is where it listens.
func (l *Listener) Address() string { return l.accept.Addr().String() }

// Protocol is "tcp" or "tls".
func (l *Listener) Protocol() string {
	if l.opts.TLS != nil {
		return "tls"
	}
	return "tcp"
}

// Init has nothing to do: the socket is open already.
func (l *Listener) Init(*slog.Logger) error { return nil }

// Serve accepts until the listener is closed. The library's function is not used.
func (l *Listener) Serve(listeners.EstablishFn) {
	for {
		raw, err := l.accept.Accept()
		if err != nil {
			return
		}
		l.open.run(raw, func(swap func(io.Closer)) {
			l.serve(raw, swap)
		})
	}
}

// serve must not need much stack below Handle, which waits for as long as the
// connection lasts.
func (l *Listener) serve(raw net.Conn, swap func(io.Closer)) {
	if base := l.handshake(raw); base != nil {
		serveConn(newConn(base, base), swap, &l.opts)
	}
}

// handshake returns what MQTT is spoken over, nil when there is nothing.
func (l *Listener) handshake(raw net.Conn) net.Conn {
	_ = raw.SetDeadline(time.Now().Add(l.opts.Limits.ConnectDeadline)) // fails only when closed
	if l.opts.TLS == nil {
		return raw
	}
	secure := tls.Server(raw, l.opts.TLS)
	if err := secure.HandshakeContext(context.Background()); err != nil {
		l.opts.Logger.Log(context.Background(), handshakeLevel(err), "refused a TLS handshake", "error", err, "remote", raw.RemoteAddr().String())
		_ = raw.Close()
		return nil
	}
	return secure
}

// handshakeLevel is louder for a certificate that is not believed than for what
// scanners do.
func handshakeLevel(err error) slog.Level {
	if bad := (*tls.CertificateVerificationError)(nil); errors.As(err, &bad) {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// serveConn hands the connection over and sees to it that it is closed.
func serveConn(c *Conn, swap func(io.Closer), opts *Options) {
	swap(c)
	opts.Handle(c)
	_ = c.Close() // never fails
	<-c.Done()
}

// Close stops accepting, says goodbye to the clients, and closes every
// connection, those before CONNECT too. The library's function is not used.
func (l *Listener) Close(listeners.CloseFn) {
	_ = l.accept.Close() // a second close changes nothing
	l.opts.goodbye(l.id)
	l.open.closeAll()
}

// Wait returns once every connection is over.
func (l *Listener) Wait() { l.open.wait() }

// tracker knows the open connections of a listener.
type tracker struct {
	mu     sync.Mutex
	wg     sync.WaitGroup
	open   map[*io.Closer]struct{}
	closed bool
}

// run calls serve in a goroutine, during which closeAll closes the connection.
func (t *tracker) run(first io.Closer, serve func(swap func(io.Closer))) {
	entry := new(io.Closer)
	*entry = first
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = first.Close()
		return
	}
	if t.open == nil {
		t.open = map[*io.Closer]struct{}{}
	}
	t.open[entry] = struct{}{}
	t.wg.Go(func() {
		defer t.forget(entry)
		serve(func(c io.Closer) { t.swap(entry, c) })
	})
}

func (t *tracker) swap(entry *io.Closer, c io.Closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*entry = c
	if t.closed {
		_ = c.Close()
	}
}

func (t *tracker) forget(entry *io.Closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, entry)
}

func (t *tracker) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for entry := range t.open {
		_ = (*entry).Close()
	}
}

func (t *tracker) wait() { t.wg.Wait() }
