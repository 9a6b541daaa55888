package guard

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/mochi-mqtt/server/v2/listeners"
)

// WebSocket accepts MQTT over WebSocket (subprotocol "mqtt", binary frames)
// for the MQTT library, through the same guard as Listener. A browser page of
// another host is refused.
type WebSocket struct {
	id     string
	opts   Options
	accept *acceptor
	server *http.Server
	open   tracker
	// buffers are what connections share to write with.
	buffers sync.Pool
}

// NewWebSocket serves MQTT over WebSocket on an open socket.
func NewWebSocket(id string, base net.Listener, opts Options) *WebSocket {
	l := &WebSocket{id: id, opts: opts, accept: newAcceptor(base, opts)}
	l.server = &http.Server{
		Handler:           http.HandlerFunc(l.upgrade),
		ReadHeaderTimeout: opts.Limits.ConnectDeadline,
		IdleTimeout:       opts.Limits.ConnectDeadline,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
	return l
}

// ID names the listener.
func (l *WebSocket) ID() string { return l.id }

// Address is where it listens.
func (l *WebSocket) Address() string { return l.accept.Addr().String() }

// Protocol is "ws" or "wss".
func (l *WebSocket) Protocol() string {
	if l.opts.TLS != nil {
		return "wss"
	}
	return "ws"
}

// Init has nothing to do: the socket is open already.
func (l *WebSocket) Init(*slog.Logger) error { return nil }

// Serve accepts until the listener is closed. The library's function is not used.
func (l *WebSocket) Serve(listeners.EstablishFn) {
	var base net.Listener = l.accept
	if l.opts.TLS != nil {
		base = tls.NewListener(base, l.opts.TLS)
	}
	if err := l.server.Serve(base); !errors.Is(err, http.ErrServerClosed) {
		l.opts.Logger.Debug("websocket listener ended", "error", err)
	}
}

func (l *WebSocket) upgrade(w http.ResponseWriter, r *http.Request) {
	deadline := time.Now().Add(l.opts.Limits.ConnectDeadline)
	upgrader := websocket.Upgrader{
		Subprotocols:     []string{"mqtt"},
		HandshakeTimeout: l.opts.Limits.ConnectDeadline,
		ReadBufferSize:   firstRead,
		WriteBufferSize:  keepBuffer,
		WriteBufferPool:  &l.buffers,
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered with the reason
	}
	raw := ws.NetConn()
	_ = raw.SetReadDeadline(deadline) // fails only when closed
	inner := &wsConn{Conn: raw, ws: ws}
	l.open.run(raw, func(swap func(io.Closer)) {
		serveConn(newConn(inner, raw), swap, &l.opts)
	})
}

// Close stops accepting, says goodbye to the clients, and closes every
// connection. The library's function is not used.
func (l *WebSocket) Close(listeners.CloseFn) {
	_ = l.server.Close() // connections that were never upgraded
	_ = l.accept.Close()
	l.opts.goodbye(l.id)
	l.open.closeAll()
}

// Wait returns once every connection is over.
func (l *WebSocket) Wait() { l.open.wait() }

// wsConn reads the binary messages of a WebSocket as one stream and writes
// each chunk as one message. One goroutine may read; any may write.
type wsConn struct {
	net.Conn
	ws      *websocket.Conn
	message io.Reader
	mu      sync.Mutex // of writing, which never waits: a wire is below
}

func (c *wsConn) Read(p []byte) (int, error) {
	for {
		if c.message == nil {
			kind, r, err := c.ws.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, &Violation{codeProtocol, "WebSocket message is not binary"}
			}
			c.message = r
		}
		n, err := c.message.Read(p)
		if errors.Is(err, io.EOF) {
			c.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *wsConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
