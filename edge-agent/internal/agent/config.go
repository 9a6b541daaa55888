package agent

import (
	"log/slog"
	"time"

	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/identity"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
	"muster/edge-agent/internal/stamp"
	"muster/internal/protocol"
)

// Sender hands messages to the link. True means handed over, not delivered.
type Sender interface {
	Send(kind protocol.Kind, payload []byte) bool
}

// Config is what the agent works with. Journal and Outbox are used by the
// agent alone from New on.
type Config struct {
	StoreID     string
	TerminalID  string
	Version     string // of this program
	Topics      protocol.Topics
	Jobs        executor.Registry
	Labels      map[string]string
	MaxParallel int // executions at a time, at least 1
	Refuse      Refuse
	Measure     func() protocol.Condition
	Journal     *journal.Journal
	Outbox      *outbox.Box
	// Home says why what is written would not be found again, because the work folder
	// is not at its place; nil: it always is.
	Home  func() error
	Stamp *stamp.Maker
	// Now is the clock on the wall, which people set: it is told and shown, and
	// nothing is counted by it. nil: this machine's.
	Now    func() time.Time
	Logger *slog.Logger
	// Identity knows headquarters' keys; nil: identity off, every message is
	// believed, as on a development machine.
	Identity *identity.Identity
}

// Refuse names the conditions under which the terminal runs nothing; zero
// means no such limit. A condition that cannot be measured forbids nothing.
type Refuse struct {
	MinBatteryPct float64
	MaxLoad       float64
	MinDiskFreeMB int64
}
