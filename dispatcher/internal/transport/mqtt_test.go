package transport_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"muster/broker/server"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

func broker(t *testing.T, addr string) *server.Server {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address, cfg.Anonymous = addr, true
	b, err := server.New(cfg, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, b) })
	return b
}

func stopBroker(t *testing.T, b *server.Server) {
	t.Helper()
	if err := b.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// link is a started link over the broker at addr. Each connection sends on
// connected.
func link(t *testing.T, addr string, handle transport.Handler) (l *transport.MQTT, connected chan struct{}) {
	t.Helper()
	connected = make(chan struct{}, 16)
	l = newLink(t, addr, handle, func() { connected <- struct{}{} })
	startLink(t, l)
	return l, connected
}

func stopLink(t *testing.T, l *transport.MQTT) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := l.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func client(t *testing.T, addr, user string, receive func(fleet.Message)) *fleet.Conn {
	t.Helper()
	c, err := fleet.Dial(t.Context(), addr, fleet.Login{User: user}, receive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func TestAFailedMessageIsTriedAgainAndNoOtherWaits(t *testing.T) {
	t.Parallel()
	addr := broker(t, "127.0.0.1:0").Addr("tcp").String()
	tries, taken := make(chan string, 16), make(chan string, 16)
	failures := 0 // touched by the one worker of its topic
	_, connected := link(t, addr, func(_ context.Context, in transport.Inbound) error {
		tries <- string(in.Payload)
		if string(in.Payload) == "poor" && failures < 2 {
			failures++
			return errors.New("disk full")
		}
		taken <- string(in.Payload)
		return nil
	})
	await(t, "the connection", connected)
	c := client(t, addr, "007/pos1", func(fleet.Message) {})
	if err := c.Publish("muster/v1/stores/007/terminals/pos1/result", []byte("poor")); err != nil {
		t.Fatal(err)
	}
	if got := await(t, "the first try", tries); got != "poor" {
		t.Fatalf("got %q", got)
	}
	if err := c.Publish("muster/v1/stores/007/terminals/pos1/claim", []byte("well")); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{await(t, "a message", taken): true, await(t, "the other", taken): true}
	if !got["poor"] || !got["well"] || failures != 2 {
		t.Errorf("taken %v after %d failures", got, failures)
	}
}

func TestWhatWasNotTakenComesAgainAfterARestart(t *testing.T) {
	t.Parallel()
	addr := broker(t, "127.0.0.1:0").Addr("tcp").String()
	tried := make(chan struct{}, 16)
	first, connected := link(t, addr, func(context.Context, transport.Inbound) error {
		tried <- struct{}{}
		return errors.New("the store is closed")
	})
	await(t, "the connection", connected)
	c := client(t, addr, "wang", func(fleet.Message) {})
	if err := c.Publish("muster/v1/req/wang/run", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for range 4 { // an early acknowledgement has left by then: the library gathers them for 50 ms
		await(t, "another try", tried)
	}
	stopLink(t, first)
	if err := c.Publish("muster/v1/req/wang/jobs", []byte("sent meanwhile")); err != nil {
		t.Fatal(err)
	}
	taken := make(chan string, 16)
	link(t, addr, func(_ context.Context, in transport.Inbound) error {
		taken <- in.Topic
		return nil
	})
	got := map[string]bool{await(t, "a message", taken): true, await(t, "the other", taken): true}
	if !got["muster/v1/req/wang/run"] || !got["muster/v1/req/wang/jobs"] {
		t.Errorf("taken %v", got)
	}
}

func TestARequestKeepsWhatItsSenderSet(t *testing.T) {
	t.Parallel()
	addr := broker(t, "127.0.0.1:0").Addr("tcp").String()
	taken := make(chan transport.Inbound, 16)
	l, connected := link(t, addr, func(_ context.Context, in transport.Inbound) error {
		taken <- in
		return nil
	})
	await(t, "the connection", connected)
	replies := make(chan fleet.Message, 16)
	c := client(t, addr, "wang", func(m fleet.Message) { replies <- m })
	if err := c.Subscribe(t.Context(), "muster/v1/rep/wang/#"); err != nil {
		t.Fatal(err)
	}
	err := c.Send(fleet.Outgoing{Topic: "muster/v1/req/wang/run", Payload: []byte("x"), Retain: true,
		ResponseTopic: "muster/v1/rep/wang/a", CorrelationData: []byte("77")})
	if err != nil {
		t.Fatal(err)
	}
	in := await(t, "the request", taken)
	if in.Topic != "muster/v1/req/wang/run" || string(in.Payload) != "x" || !in.Retained ||
		in.ResponseTopic != "muster/v1/rep/wang/a" || string(in.CorrelationData) != "77" {
		t.Errorf("got %+v", in)
	}
	if err := l.Publish(t.Context(), transport.Outbound{Topic: "muster/v1/rep/wang/a", Payload: []byte("yes"), Expiry: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if m := await(t, "the reply", replies); m.Topic != "muster/v1/rep/wang/a" || string(m.Payload) != "yes" {
		t.Errorf("got %+v", m)
	}
}

func TestEveryConnectionIsTold(t *testing.T) {
	t.Parallel()
	b := broker(t, programs.FreeAddr(t))
	addr := b.Addr("tcp").String()
	l, connected := link(t, addr, func(context.Context, transport.Inbound) error { return nil })
	await(t, "the connection", connected)
	stopBroker(t, b)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := l.Publish(short, transport.Outbound{Topic: "muster/v1/info", Payload: []byte("{}"), Retain: true}); err == nil {
		t.Error("a message was handed to a broker that is gone")
	}
	broker(t, addr)
	await(t, "the second connection", connected)
	if err := l.Publish(t.Context(), transport.Outbound{Topic: "muster/v1/info", Payload: []byte("{}"), Retain: true}); err != nil {
		t.Error(err)
	}
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	l := transport.NewMQTT(transport.MQTTConfig{URL: &url.URL{Scheme: "mqtt", Host: "127.0.0.1:1"}, User: "dispatcher"}, topics, nil, nil, slog.New(slog.DiscardHandler))
	stopLink(t, l)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := l.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a start without a broker: %v", err)
	}
	stopLink(t, l)
	stopLink(t, l)
}

func TestTwoDispatchersDoNotTakeTurnsAtOneSession(t *testing.T) {
	t.Parallel()
	addr := broker(t, "127.0.0.1:0").Addr("tcp").String()
	first, connected := link(t, addr, func(context.Context, transport.Inbound) error { return nil })
	await(t, "the first connection", connected)
	if delay := first.ReconnectDelay(0); delay > time.Second {
		t.Errorf("a link that was never taken over waits %v", delay)
	}
	_, second := link(t, addr, func(context.Context, transport.Inbound) error { return nil })
	await(t, "the second connection", second)
	deadline := time.After(patience)
	for tick := time.Tick(5 * time.Millisecond); !first.TakenOver(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatal("the first link does not know that it was taken over")
		}
	}
	if delay := first.ReconnectDelay(0); delay < 30*time.Second {
		t.Errorf("it would take the session back after %v", delay)
	}
}

// newLink is a link over the broker at addr that is not started.
func newLink(t *testing.T, addr string, handle transport.Handler, connected func()) *transport.MQTT {
	t.Helper()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	return transport.NewMQTT(transport.MQTTConfig{URL: &url.URL{Scheme: "mqtt", Host: addr}, User: "dispatcher"}, topics,
		handle, connected, slog.New(slog.DiscardHandler))
}

func ignore(context.Context, transport.Inbound) error { return nil }

func startLink(t *testing.T, l *transport.MQTT) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopLink(t, l) })
}

// TestStopWaitsForWhoIsToldOfAConnection: after it nobody touches the steps or the
// store any more.
func TestStopWaitsForWhoIsToldOfAConnection(t *testing.T) {
	t.Parallel()
	addr := broker(t, "127.0.0.1:0").Addr("tcp").String()
	began, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l := newLink(t, addr, ignore, func() {
		close(began)
		<-goOn
		close(ended)
	})
	startLink(t, l)
	await(t, "the connection", began)
	stopped := make(chan struct{})
	go func() {
		stopLink(t, l)
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Error("it stopped while somebody was still told of the connection")
	case <-time.After(soon):
	}
	close(goOn)
	await(t, "the stop", stopped)
	select {
	case <-ended:
	default:
		t.Error("it stopped before they were told to the end")
	}
}

// TestWhoPanicsOverAConnectionOrAMessageEndsNothing: of messages the others come.
func TestWhoPanicsOverAConnectionOrAMessageEndsNothing(t *testing.T) {
	t.Parallel()
	addr := broker(t, "127.0.0.1:0").Addr("tcp").String()
	alarms, taken := make(chan string, 16), make(chan string, 16)
	l := newLink(t, addr, func(_ context.Context, in transport.Inbound) error {
		if string(in.Payload) == "poison" {
			panic("nobody can take that in")
		}
		taken <- string(in.Payload)
		return nil
	}, func() { panic("nobody can hear that") })
	l.Ward = &quarantine.Ward{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alarm: func(kind, subject string, trouble error) {
		alarms <- fmt.Sprintf("%s %s: %v", kind, subject, trouble)
	}}
	startLink(t, l)
	if got := await(t, "the first alarm", alarms); got != "step_panicked what is told that the broker was reached: headquarters panicked: nobody can hear that" {
		t.Errorf("got %s", got)
	}
	c := client(t, addr, "007/pos1", func(fleet.Message) {})
	for _, payload := range []string{"poison", "well"} {
		if err := c.Publish("muster/v1/stores/007/terminals/pos1/claim", []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	if got := await(t, "the second alarm", alarms); got != "message_panicked muster/v1/stores/007/terminals/pos1/claim: headquarters panicked: nobody can take that in" {
		t.Errorf("got %s", got)
	}
	if got := await(t, "the next message", taken); got != "well" {
		t.Errorf("taken %s", got)
	}
}

// deaf is a broker that acknowledges nothing that is published at it.
func deaf(t *testing.T, came chan<- string) (addr string) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for {
			p, err := packets.ReadPacket(conn)
			if err != nil {
				return
			}
			var answer *packets.ControlPacket
			switch content := p.Content.(type) {
			case *packets.Connect:
				answer = packets.NewControlPacket(packets.CONNACK)
			case *packets.Subscribe:
				answer = packets.NewControlPacket(packets.SUBACK)
				answer.Content = &packets.Suback{PacketID: content.PacketID, Properties: &packets.Properties{}, Reasons: make([]byte, len(content.Subscriptions))}
			case *packets.Publish:
				came <- content.Topic
			}
			if answer == nil {
				continue
			}
			if _, err := answer.WriteTo(conn); err != nil {
				return
			}
		}
	}()
	return listener.Addr().String()
}

// TestAMessageOnItsWayDoesNotHoldUpTheStop: whoever published it waits no longer
// for a broker that does not answer.
func TestAMessageOnItsWayDoesNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	came, published := make(chan string, 16), make(chan error, 1)
	var l *transport.MQTT
	l = newLink(t, deaf(t, came), ignore, func() {
		published <- l.Publish(context.WithoutCancel(t.Context()), transport.Outbound{Topic: "muster/v1/info", Payload: []byte("{}")})
	})
	startLink(t, l)
	await(t, "the message", came)
	began := time.Now()
	stopLink(t, l)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if err := await(t, "the answer", published); err == nil {
		t.Error("a message that nobody acknowledged counts as published")
	}
}
