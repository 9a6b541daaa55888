package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"muster/broker/server"
)

// Listen opens a listener, as net.ListenConfig does.
type Listen = func(ctx context.Context, network, address string) (net.Listener, error)

// Embedded is a Link to a broker inside this process: a message is taken in
// before it is acknowledged, without a second hop.
type Embedded struct {
	broker *server.Server
}

// EmbeddedOptions connects the broker with the program that it lives in.
type EmbeddedOptions struct {
	// Handle is required.
	Handle Handler
	// Session is told, in order for each terminal, when its connection begins or
	// ends. Required.
	Session func(Session)
	// Banned is told when a client's ban begins; may be nil.
	Banned func(server.Ban)
	// Served makes offers when somebody subscribes; nil: the broker keeps them.
	Served Served
	// OwnFiles is how many files the program opens beside connections.
	OwnFiles int
	// Now is the time by which certificates are good; nil: this machine's clock.
	Now func() time.Time
	// Listen opens the listeners; nil: on the network of this machine.
	Listen Listen
	// Logger is required.
	Logger *slog.Logger
}

// NewEmbedded returns a link whose broker is configured but not yet listening.
func NewEmbedded(cfg server.Config, opts EmbeddedOptions) (*Embedded, error) {
	broker, err := server.New(cfg, server.Options{
		Logger:          opts.Logger,
		OwnFiles:        opts.OwnFiles,
		Listen:          opts.Listen,
		ManagedPresence: true,
		Banned:          opts.Banned,
		Now:             opts.Now,
		Served:          served(opts.Served),
		Intake: func(ctx context.Context, m server.Message) error {
			return opts.Handle(ctx, Inbound{Topic: m.Topic, Payload: m.Payload, Retained: m.Retained,
				ResponseTopic: m.ResponseTopic, CorrelationData: m.CorrelationData, Signature: m.Signature, User: m.User})
		},
		Session: func(s server.Session) { opts.Session(Session(s)) },
	})
	if err != nil {
		return nil, fmt.Errorf("cannot embed the broker: %w", err)
	}
	return &Embedded{broker: broker}, nil
}

// Served is what server.Served is, in this package's words.
type Served interface {
	Serves(topic string) bool
	Topics(ctx context.Context, filter string) ([]string, error)
	Message(ctx context.Context, topic string) (Outbound, bool, error)
}

type servedBy struct{ Served }

func served(by Served) server.Served {
	if by == nil {
		return nil
	}
	return servedBy{by}
}

func (s servedBy) Message(ctx context.Context, topic string) (server.Outgoing, bool, error) {
	out, there, err := s.Served.Message(ctx, topic)
	return server.Outgoing(out), there, err
}

// Subscribed reports whether any client subscribes to a topic.
func (e *Embedded) Subscribed(topic string) bool { return e.broker.Subscribed(topic) }

// LoadUsers reads a users file; see server.LoadUsers.
func (e *Embedded) LoadUsers(path string) (use func(), err error) { return e.broker.LoadUsers(path) }

// Start opens the listeners.
func (e *Embedded) Start(ctx context.Context) error { return e.broker.Start(ctx) }

// Stop closes them and every connection.
func (e *Embedded) Stop(ctx context.Context) error { return e.broker.Stop(ctx) }

// Addr is where the named listener (tcp, tls, ws) listens, nil when it is off.
func (e *Embedded) Addr(name string) net.Addr { return e.broker.Addr(name) }

// Publish hands out to the broker; nil means that it is retained or queued for
// whoever subscribed.
func (e *Embedded) Publish(ctx context.Context, out Outbound) error {
	return e.broker.Publish(ctx, server.Outgoing(out))
}
