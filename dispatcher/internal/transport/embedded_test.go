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
)

// soon is how long an acknowledgement that must not come is waited for.
const soon = 200 * time.Millisecond

// TestAcknowledgedMeansTakenIn: with the embedded broker a PUBACK leaves after
// the handler committed, and never when it failed.
func TestAcknowledgedMeansTakenIn(t *testing.T) {
	t.Parallel()
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address, cfg.Anonymous = "127.0.0.1:0", true
	entered, commit := make(chan string), make(chan error)
	link, err := transport.NewEmbedded(cfg, func(_ context.Context, in transport.Inbound) error {
		entered <- in.Topic
		return <-commit
	}, func(transport.Session) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Stop(context.WithoutCancel(t.Context())) })
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", link.Addr("tcp").String())
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
