package transport_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// soon is how long an acknowledgement that must not come is waited for.
const soon = 200 * time.Millisecond

// TestAcknowledgedMeansTakenIn: with the embedded broker a PUBACK leaves after
// the handler committed, and never when it failed.
func TestAcknowledgedMeansTakenIn(t *testing.T) {
	t.Parallel()
	entered, commit := make(chan string), make(chan error)
	_, addr := startEmbedded(t, func(_ context.Context, in transport.Inbound) error {
		entered <- in.Topic
		return <-commit
	})
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{Conn: conn})
	if _, err := client.Connect(t.Context(), &paho.Connect{ClientID: "wang", Username: "wang", UsernameFlag: true, KeepAlive: 30, CleanStart: true}); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(chan error, 2)
	publish := func() {
		_, err := client.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: "muster/v1/req/wang/run", Payload: []byte("{}")})
		acknowledged <- err
	}
	notYet := func(when string) {
		t.Helper()
		select {
		case err := <-acknowledged:
			t.Errorf("acknowledged %s, %v", when, err)
		case <-time.After(soon):
		}
	}
	go publish()
	await(t, "the message", entered)
	notYet("before the commit")
	commit <- nil
	if err := await(t, "the acknowledgement", acknowledged); err != nil {
		t.Errorf("after the commit: %v", err)
	}
	go publish()
	await(t, "the next message", entered)
	commit <- errors.New("disk full")
	select {
	case err := <-acknowledged:
		if err == nil {
			t.Error("acknowledged after the commit failed")
		}
	case <-time.After(soon):
	}
	_ = conn.Close() // ends the publish that nobody acknowledges
}

// peer is a client with the whole of MQTT 5. What it subscribed to comes out of
// received.
type peer struct {
	t        *testing.T
	client   *paho.Client
	received chan *paho.Publish
}

func dialPeer(t *testing.T, addr, user string, filters ...string) *peer {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, received: make(chan *paho.Publish, 16)}
	p.client = paho.NewClient(paho.ClientConfig{Conn: conn, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(pr paho.PublishReceived) (bool, error) { p.received <- pr.Packet; return true, nil },
	}})
	if _, err := p.client.Connect(t.Context(), &paho.Connect{ClientID: user, Username: user, UsernameFlag: true, KeepAlive: 30, CleanStart: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.client.Disconnect(&paho.Disconnect{}) })
	for _, filter := range filters {
		if _, err := p.client.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// publish sends a payload with user properties: name, value, name, value.
func (p *peer) publish(topic string, payload []byte, properties ...string) {
	p.t.Helper()
	var user paho.UserProperties
	for i := 0; i < len(properties); i += 2 {
		user.Add(properties[i], properties[i+1])
	}
	if _, err := p.client.Publish(p.t.Context(), &paho.Publish{QoS: 1, Topic: topic, Payload: payload,
		Properties: &paho.PublishProperties{User: user}}); err != nil {
		p.t.Fatal(err)
	}
}

// TestSignaturesTravel both ways over both links, beside the payload that they
// sign; what bears none arrives without, and of doubled properties the first
// counts.
func TestSignaturesTravel(t *testing.T) {
	t.Parallel()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(*testing.T, transport.Handler) (transport.Link, string){
		"embedded": startEmbedded, "mqtt": startMQTT,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := make(chan transport.Inbound, 16)
			link, addr := start(t, func(_ context.Context, m transport.Inbound) error { in <- m; return nil })
			p := dialPeer(t, addr, "S1/pos", topics.Offer("S1", "+"))

			topic, payload := topics.Terminal("S1", "pos", protocol.KindHello), []byte(`{"seq":1}`)
			s := key(3).Sign(topic, payload)
			p.publish(topic, payload, "traceparent", "x", "kid", s.KeyID, "sig", s.Value, "kid", "another")
			p.publish(topic, payload)
			if m := await(t, "the signed hello", in); m.Signature != s || m.Signature.Verify(publicKey(3), m.Topic, m.Payload) != nil {
				t.Errorf("got %+v, sent %+v", m.Signature, s)
			}
			if m := await(t, "the other hello", in); !m.Signature.IsZero() {
				t.Errorf("got %+v with an unsigned message", m.Signature)
			}

			sender := transport.NewSender(link, topics, time.Now).Signing(func() *trust.Signer { return key(1) })
			offer := transport.Options{Retain: true, Expiry: time.Hour}
			if err := sender.JSON(t.Context(), topics.Offer("S1", "t1"), protocol.Offer{Meta: sender.Meta()}, offer); err != nil {
				t.Fatal(err)
			}
			for _, client := range []*peer{p, dialPeer(t, addr, "S1/pos-2", topics.Offer("S1", "+"))} { // live, and retained
				m := await(t, "the offer", client.received)
				got := trust.Signature{KeyID: m.Properties.User.Get("kid"), Value: m.Properties.User.Get("sig")}
				if err := got.Verify(publicKey(1), m.Topic, m.Payload); err != nil || got.KeyID != key(1).KeyID() {
					t.Errorf("the offer came with %+v: %v", got, err)
				}
			}
			if err := sender.ClearOffer(t.Context(), "S1", "t1"); err != nil {
				t.Fatal(err)
			}
			if m := await(t, "the withdrawal", p.received); len(m.Payload) != 0 || len(m.Properties.User) != 0 {
				t.Errorf("a withdrawal of %d bytes with %v", len(m.Payload), m.Properties.User)
			}
		})
	}
}

func startEmbedded(t *testing.T, handle transport.Handler) (transport.Link, string) {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address, cfg.Anonymous = "127.0.0.1:0", true
	link, err := transport.NewEmbedded(cfg, transport.EmbeddedOptions{Handle: handle, Session: func(transport.Session) {}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Stop(context.WithoutCancel(t.Context())) })
	return link, link.Addr("tcp").String()
}

func startMQTT(t *testing.T, handle transport.Handler) (transport.Link, string) {
	t.Helper()
	addr := broker(t, "127.0.0.1:0").Addr("tcp").String()
	l, connected := link(t, addr, handle)
	await(t, "the connection", connected)
	return l, addr
}
