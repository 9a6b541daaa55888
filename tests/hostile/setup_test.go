// Package hostile_test attacks the broker over the network while it works: with
// malformed packets, floods, and connections that never say a word. What it
// proves is that others are served all the while and that nothing is left over.
package hostile_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/broker/server"
	"muster/internal/protocol"
)

// wait bounds what must happen; it only passes in full when the test fails.
const wait = 30 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(brokerVar) != "" {
		os.Exit(brokerProcess()) // this is a main: the test binary, run as a broker
	}
	m.Run()
}

func topics() protocol.Topics {
	t, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		panic(err) // the default root is valid
	}
	return t
}

// configuration is the broker's default on a free port. Sessions that outlive
// their connection go after a second, so that what is left at the end is a leak.
func configuration() server.Config {
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address = "127.0.0.1:0"
	cfg.Anonymous = true
	cfg.Limits.SessionExpiry = time.Second
	return cfg
}

// headquarters answers: a claim with an order to its terminal, a request with a
// reply to its user, each with the payload it got.
type headquarters struct{ broker *server.Server }

func (h *headquarters) intake(ctx context.Context, m server.Message) error {
	a, ok := topics().Parse(m.Topic)
	if !ok || len(m.Payload) > 1<<10 {
		return nil
	}
	out := server.Outgoing{Payload: m.Payload}
	switch {
	case a.Area == protocol.AreaRequest:
		out.Topic = topics().LastReply(a.User)
	case a.Kind == protocol.KindClaim:
		out.Topic = topics().Terminal(a.Store, a.Terminal, protocol.KindOrders)
	default:
		return nil
	}
	return h.broker.Publish(ctx, out)
}

// serve starts a broker with a headquarters behind it.
func serve(ctx context.Context, cfg server.Config, logger *slog.Logger) (*server.Server, error) {
	hq := &headquarters{}
	s, err := server.New(cfg, server.Options{Logger: logger, Intake: hq.intake, ManagedPresence: true})
	if err != nil {
		return nil, err
	}
	hq.broker = s
	return s, s.Start(ctx)
}

// panics is a slog.Handler that keeps what the broker says about panics it has
// caught, and any other error.
type panics struct {
	mu    sync.Mutex
	found []string
}

func (p *panics) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (p *panics) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { text.WriteString(" " + a.String()); return true })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = append(p.found, text.String())
	return nil
}

func (p *panics) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p *panics) WithGroup(string) slog.Handler      { return p }

func (p *panics) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}
