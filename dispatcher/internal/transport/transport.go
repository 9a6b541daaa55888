// Package transport carries messages between headquarters and the broker: the
// embedded one, or any MQTT 5 broker. The steps see only this package's
// messages and never learn which it is.
//
// It keeps no state that matters: the broker may lose everything at any moment.
package transport

import (
	"context"
	"time"

	"muster/internal/trust"
)

// Inbound is a message from a terminal or a technician. Payload must not be
// kept or changed after the handler returns.
type Inbound struct {
	Topic           string
	Payload         []byte
	Retained        bool // sent with the retain flag, or delivered from the retained store
	ResponseTopic   string
	CorrelationData []byte
	Signature       trust.Signature // zero when it is not signed
	// User is whom the broker inside this process authenticated, "" over any
	// other broker. A terminal's is "{store}/{terminal}".
	User string
}

// Handler takes one message in. It returns nil once the message may be
// acknowledged, which means: after the commit. On an error the message stays
// unacknowledged and the sender sends it again. It is called from many
// goroutines and must be safe for that.
type Handler func(ctx context.Context, in Inbound) error

// Outbound is a message from headquarters, always QoS 1. An empty payload with
// Retain withdraws what was retained. Expiry 0 means never.
type Outbound struct {
	Topic           string
	Payload         []byte
	Retain          bool
	Expiry          time.Duration
	CorrelationData []byte
	Signature       trust.Signature // travels as user properties; zero: none
	Soon            bool            // may leave some milliseconds later, with others to the same client
}

// Session says that a terminal's connection began or ended.
type Session struct {
	StoreID    string
	TerminalID string
	SessionID  string // names one connection
	Online     bool
	At         time.Time
}

// Link is one way to a broker. Start returns once messages flow; Stop waits
// until handlers have returned and tolerates being called twice or before
// Start. Publish hands the message to the broker, safe for concurrent use; nil
// means handed over, not delivered.
type Link interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Publish(ctx context.Context, out Outbound) error
}
