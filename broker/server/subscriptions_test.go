package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
)

func TestClientWithTooManySubscriptionsIsCutOff(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	c := connect(t, s, as("alice"))
	ask := func(from, to int) error {
		var many paho.Subscribe
		for i := from; i < to; i++ {
			many.Subscriptions = append(many.Subscriptions, paho.SubscribeOptions{Topic: fmt.Sprintf("%s/runs/r%d/text", root, i), QoS: 1})
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		go func() {
			select {
			case <-c.down: // nobody answers any more
				cancel()
			case <-ctx.Done():
			}
		}()
		_, err := c.Subscribe(ctx, &many)
		return err
	}
	for from := 0; from < 1_024; from += 128 {
		if err := ask(from, from+128); err != nil {
			t.Fatalf("filters from %d: %v", from, err)
		}
	}
	if err := ask(0, 128); err != nil {
		t.Errorf("the same filters once more: %v", err)
	}
	_ = ask(1_024, 1_025) // it is cut off instead of answered
	<-c.down
	if c.goodbye != 0x97 {
		t.Errorf("the broker said 0x%02x, not 0x97 (quota exceeded)", c.goodbye)
	}
	eventually(t, "its subscriptions are gone", func() bool { return s.Subscriptions() == 0 })
}
