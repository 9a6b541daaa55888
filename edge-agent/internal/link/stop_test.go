package link_test

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"muster/broker/server"
	"muster/edge-agent/internal/link"
	"muster/internal/protocol"
)

// stalling is a connection that takes in nothing more once it is stalled.
type stalling struct {
	net.Conn
	stalled <-chan struct{}
	closed  chan struct{}
	once    sync.Once
}

func (c *stalling) Write(p []byte) (int, error) {
	select {
	case <-c.stalled:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return c.Conn.Write(p)
	}
}

func (c *stalling) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// stallable has a link dial connections that stall when stall is called, and are
// closed at the latest when the test ends.
func stallable(t *testing.T) (dial func(*link.Config), stall func()) {
	t.Helper()
	stalled := make(chan struct{})
	dial = func(c *link.Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			s := &stalling{Conn: conn, stalled: stalled, closed: make(chan struct{})}
			context.AfterFunc(t.Context(), func() { _ = s.Close() })
			return s, nil
		}
	}
	return dial, sync.OnceFunc(func() { close(stalled) })
}

// wantSoon fails when a link does not end within what is left of the 5 s that a
// service manager is promised.
func wantSoon(t *testing.T, stop func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	select {
	case <-ended:
	case <-time.After(3 * time.Second):
		t.Error("the link does not end")
	}
}

// TestALinkThatIsStalledStopsInTime, whatever it was about to say.
func TestALinkThatIsStalledStopsInTime(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"mqtt", "ws"} {
		for name, say := range map[string]bool{"in the middle of a message": true, "at its goodbye": false} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, server.Listeners{TCP: server.ListenerConfig{Address: "127.0.0.1:0"}, WS: server.ListenerConfig{Address: "127.0.0.1:0"}})
				r := &recorder{events: make(chan string, 1000)}
				listener := map[string]string{"mqtt": "tcp", "ws": "ws"}[scheme]
				dial, stall := stallable(t)
				l, stop := b.run(r, &url.URL{Scheme: scheme, Host: b.broker.Addr(listener).String(), Path: "/mqtt"}, dial)
				r.wait(t, "up")
				l.Send(protocol.KindProgress, []byte("{}"))
				b.next() // nothing waits any more
				stall()
				if say {
					l.Send(protocol.KindProgress, []byte("{}"))
				}
				wantSoon(t, stop)
			})
		}
	}
}

// TestALinkStopsInTimeBeforeASilentBroker: one that takes connections, and says
// nothing on them.
func TestALinkStopsInTimeBeforeASilentBroker(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"mqtt", "ws"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			b := newBench(t, tcp("127.0.0.1:0"))
			r := &recorder{events: make(chan string, 1000)}
			_, stop := b.run(r, &url.URL{Scheme: scheme, Host: silent.Addr().String(), Path: "/mqtt"})
			conn, err := silent.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Read(make([]byte, 1)); err != nil { // it waits for the answer
				t.Fatal(err)
			}
			wantSoon(t, stop)
		})
	}
}
