package app_test

import (
	"context"
	"testing"

	"muster/broker/server"
)

// startBroker starts a broker of our own beside headquarters and returns its
// address.
func startBroker(t *testing.T) string {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address, cfg.Anonymous = "127.0.0.1:0", true
	broker, err := server.New(cfg, server.Options{Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return broker.Addr("tcp").String()
}
