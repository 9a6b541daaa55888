package server_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
)

const root = "muster/v1"

// wait bounds what must happen; it only passes in full when the test fails.
const wait = 10 * time.Second

func anonymous() server.Config {
	return server.Config{
		Listeners: server.Listeners{TCP: server.ListenerConfig{Address: "127.0.0.1:0"}},
		Anonymous: true,
	}
}

// start runs a broker for the length of the test.
func start(t *testing.T, cfg server.Config, opts server.Options) *server.Server {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s, err := server.New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}

// client is a paho client with what it received.
type client struct {
	*paho.Client
	t        *testing.T
	received chan *paho.Publish
	down     chan struct{}
	goodbye  byte // the code of the broker's DISCONNECT; read it after down
}

type login struct {
	user, password, id string
	clean              bool
	expiry             uint32
	will               *paho.WillMessage
	willDelay          uint32
	willUser           paho.UserProperties
}

// as logs a user or terminal in under a client id of the same name.
func as(user string) login { return login{user: user, id: user, clean: true} }

// connect logs in and fails the test when that is refused.
func connect(t *testing.T, s *server.Server, l login) *client {
	t.Helper()
	c, ack, err := tryConnect(t, s, l)
	if err != nil {
		t.Fatalf("connect %q: %v (%+v)", l.user, err, ack)
	}
	return c
}

func tryConnect(t *testing.T, s *server.Server, l login) (*client, *paho.Connack, error) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr("tcp").String())
	if err != nil {
		t.Fatal(err)
	}
	return connectOver(t, packets.NewThreadSafeConn(conn), l)
}

func connectOver(t *testing.T, conn net.Conn, l login) (*client, *paho.Connack, error) {
	c := &client{t: t, received: make(chan *paho.Publish, 10_000), down: make(chan struct{})}
	var once sync.Once
	down := func() { once.Do(func() { close(c.down) }) }
	c.Client = paho.NewClient(paho.ClientConfig{
		Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(r paho.PublishReceived) (bool, error) { c.received <- r.Packet; return true, nil },
		},
		OnClientError:      func(error) { down() },
		OnServerDisconnect: func(d *paho.Disconnect) { c.goodbye = d.ReasonCode; down() },
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	cp := &paho.Connect{
		ClientID: l.id, CleanStart: l.clean, KeepAlive: 60, WillMessage: l.will,
		Username: l.user, UsernameFlag: l.user != "", Password: []byte(l.password), PasswordFlag: l.password != "",
	}
	if l.expiry > 0 {
		cp.Properties = &paho.ConnectProperties{SessionExpiryInterval: &l.expiry}
	}
	if l.will != nil {
		cp.WillProperties = &paho.WillProperties{WillDelayInterval: &l.willDelay, User: l.willUser}
	}
	ack, err := c.Connect(ctx, cp)
	if err == nil {
		t.Cleanup(func() { _ = c.Disconnect(&paho.Disconnect{}) })
	}
	return c, ack, err
}

// subscribe returns the reason code of the one filter.
func (c *client) subscribe(filter string) byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), wait)
	defer cancel()
	ack, err := c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	if ack == nil || len(ack.Reasons) != 1 {
		c.t.Fatalf("subscribe %q: %v", filter, err)
	}
	return ack.Reasons[0]
}

// publish returns the reason code of the PUBACK.
func (c *client) publish(p *paho.Publish) byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), wait)
	defer cancel()
	ack, err := c.Publish(ctx, p)
	if ack == nil {
		c.t.Fatalf("publish %q: %v", p.Topic, err)
	}
	return ack.ReasonCode
}

func (c *client) say(topic, payload string) byte {
	c.t.Helper()
	return c.publish(&paho.Publish{Topic: topic, Payload: []byte(payload), QoS: 1})
}

// next returns the next message.
func (c *client) next() *paho.Publish {
	c.t.Helper()
	return receive(c.t, c.received)
}

// receive fails the test when nothing comes in time.
func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(wait):
		t.Fatal("nothing arrived in time")
		panic("unreachable")
	}
}

// eventually polls for what a background goroutine of the library does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
