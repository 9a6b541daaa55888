// Package interop_test runs the public interoperability suite for MQTT 5 against
// the broker with its guards on. README.md says how, and what is bent for it.
package interop_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"

	"muster/broker/server"
	"muster/broker/server/access"
)

// forbidden is the one filter that the suite expects to be refused.
const forbidden = "test/nosubscribe"

// open lets everybody do everything but read the filter that the suite wants
// refused.
type open struct{}

func (open) MayPublish(access.Identity, string) bool       { return true }
func (open) MayRead(_ access.Identity, filter string) bool { return filter != forbidden }
func (open) MayRetain(access.Identity, string) bool        { return true }
func (open) MayLeaveWill(access.Identity, string) bool     { return true }

// configuration is the broker's default but for what the suite takes for
// granted: nobody logs in, a keep alive of 2 s counts, one over 60 s is cut to
// that, and a client that comes back at once, case after case, is welcome.
func configuration() server.Config {
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address = "127.0.0.1:0"
	cfg.Anonymous = true
	cfg.Limits.MinKeepalive = time.Second
	cfg.Limits.MaxKeepalive = time.Minute
	cfg.Limits.FlappingConnects = 1_000
	return cfg
}

// bent is how the suite wants the broker; quotas says whether Receive Maximum
// and topic aliases of clients are left to the library.
func bent(quotas bool) *server.Interop {
	return &server.Interop{
		Access:       open{},
		ClientQuotas: quotas,
		Compatibilities: mqtt.Compatibilities{
			ObscureNotAuthorized:    true, // the suite takes 0x80 only for "may not subscribe"
			PassiveClientDisconnect: true, // it reads on after a DISCONNECT
		},
	}
}

// start runs the broker for the length of the test and returns its address.
func start(t *testing.T, bent *server.Interop) string {
	t.Helper()
	s, err := server.New(configuration(), server.Options{
		Interop: bent, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s.Addr("tcp").String()
}
