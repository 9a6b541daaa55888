package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/gorilla/websocket"
)

// Schemes maps the URL schemes that dial knows to their usual ports.
func Schemes() map[string]string {
	return map[string]string{"mqtt": "1883", "mqtts": "8883", "ws": "80", "wss": "443"}
}

// Dial opens a connection to an address, as net.Dialer does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// closing closes what it opens a moment after ctx ends: paho writes without a
// deadline, and the handshake of a web socket does not look at its context, so
// that over a link which is slow or stalled nothing else would end them.
func (d Dial) closing(ctx context.Context) Dial {
	return func(dialCtx context.Context, network, address string) (net.Conn, error) {
		conn, err := d(dialCtx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { time.AfterFunc(parting, func() { _ = conn.Close() }) })
		}
		return conn, err
	}
}

// broker opens a connection whose writes are safe from several goroutines.
func (d Dial) broker(ctx context.Context, broker *url.URL, tlsConfig *tls.Config) (net.Conn, error) {
	port, known := Schemes()[broker.Scheme]
	if !known {
		return nil, fmt.Errorf("cannot dial scheme %q", broker.Scheme)
	}
	if own := broker.Port(); own != "" {
		port = own
	}
	address := net.JoinHostPort(broker.Hostname(), port)
	if broker.Scheme == "ws" || broker.Scheme == "wss" {
		return d.webSocket(ctx, broker, tlsConfig)
	}
	conn, err := d(ctx, "tcp", address)
	if err != nil || broker.Scheme == "mqtt" {
		return conn, err
	}
	secure := tls.Client(conn, named(tlsConfig, broker.Hostname()))
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return packets.NewThreadSafeConn(secure), nil
}

// named gives the configuration with the name that the broker's certificate must
// bear.
func named(config *tls.Config, host string) *tls.Config {
	if config.ServerName != "" {
		return config
	}
	config = config.Clone()
	config.ServerName = host
	return config
}

func (d Dial) webSocket(ctx context.Context, broker *url.URL, tlsConfig *tls.Config) (net.Conn, error) {
	dialer := websocket.Dialer{NetDialContext: d, TLSClientConfig: tlsConfig, Subprotocols: []string{"mqtt"}}
	ws, response, err := dialer.DialContext(ctx, broker.String(), nil)
	if err != nil {
		if response != nil {
			err = fmt.Errorf("%w: %s", err, response.Status)
		}
		return nil, err
	}
	// paho takes a conn that is also a Locker as safe for concurrent writes.
	return &struct {
		*webSocketConn
		sync.Locker
	}{&webSocketConn{Conn: ws}, &sync.Mutex{}}, nil
}

// webSocketConn makes a stream of the binary messages of a web socket (MQTT 5,
// section 6). One goroutine reads; writers hold the lock around it.
type webSocketConn struct {
	*websocket.Conn
	message io.Reader
}

// Read gives the next bytes, across message borders.
func (c *webSocketConn) Read(p []byte) (int, error) {
	for {
		if c.message == nil {
			kind, message, err := c.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errors.New("the broker sent a text message")
			}
			c.message = message
		}
		n, err := c.message.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		c.message = nil
		if n > 0 {
			return n, nil
		}
	}
}

// Write sends p as one message; packets may span several.
func (c *webSocketConn) Write(p []byte) (int, error) {
	if err := c.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// SetDeadline bounds reads and writes.
func (c *webSocketConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
