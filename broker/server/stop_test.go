package server_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"muster/broker/server"
	"muster/tests/fleet"
)

func TestStopSaysGoodbye(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	c := connect(t, s, as("olga"))
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, c.down)
	if c.goodbye != packets.DisconnectServerShuttingDown {
		t.Errorf("goodbye with code 0x%02x", c.goodbye)
	}
}

// TestStopMeetsClientsThatLeave: the library's own goodbye takes its read lock
// a second time, and waits for ever for a client that leaves in between.
func TestStopMeetsClientsThatLeave(t *testing.T) {
	for range 300 {
		s, err := server.New(anonymous(), server.Options{Logger: slog.New(slog.DiscardHandler), ManagedPresence: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := make(chan struct{})
		for range 4 {
			c, err := fleet.Dial(t.Context(), s.Addr("tcp").String(), fleet.Login{User: "olga", ClientID: rand.Text()}, func(fleet.Message) {})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				c.Close()
				left <- struct{}{}
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		err = s.Stop(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			<-left
		}
	}
}
