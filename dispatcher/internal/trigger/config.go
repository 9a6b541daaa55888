package trigger

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

// DefaultRate (requests a second) and DefaultBurst bound what one user asks: far
// more than a person types, far less than a loop sends. Technicians, and names
// that nobody knows, have the lower ones.
const (
	DefaultRate            = rate.Limit(5)
	DefaultBurst           = 20
	DefaultTechnicianRate  = rate.Limit(1)
	DefaultTechnicianBurst = 10
)

// Maker makes runs, of a request or of an approval.
type Maker interface {
	CreateRun(ctx context.Context, run store.Run, places []store.Place, tasks []store.NewTask, req store.Request, now time.Time) (store.Created, error)
	CreateApprovedRun(ctx context.Context, approvalID, by string, run store.Run, places []store.Place, tasks []store.NewTask, req store.Request, now time.Time) (store.Created, error)
}

// Runs is what changes.
type Runs interface {
	Maker
	FindRequest(ctx context.Context, user, requestID string) (store.Request, store.Run, error)
	GetRun(ctx context.Context, runID string) (store.Run, error)
	Cancel(ctx context.Context, runID string, stores []string, reason task.Reason, by string, now time.Time) ([]store.Task, int, error)
}

// Tasks is what a status tells.
type Tasks interface {
	CountTasks(ctx context.Context, runID string) (map[task.Status]int, int, error)
	CountOnline(ctx context.Context, runID string) (int, error)
	GetTaskOf(ctx context.Context, runID, storeID string) ([]store.Task, error)
	GetResult(ctx context.Context, taskID string, attempt int) (store.Attempt, error)
}

// Approvals is what waits for the word of a second person.
type Approvals interface {
	AddApproval(ctx context.Context, a store.Approval, now time.Time) (store.Approval, bool, error)
	GetApproval(ctx context.Context, approvalID string) (store.Approval, error)
	ListApprovals(ctx context.Context, pendingOnly bool) ([]store.Approval, error)
	DecideApproval(ctx context.Context, approvalID, by, state, why string, now time.Time) (store.Approval, error)
}

// Register is the list of stores, the book of who did what, and what waits to
// be done.
type Register interface {
	ListPlaces(ctx context.Context) ([]store.Place, error)
	Audit(ctx context.Context, actor, action, subject, detail string, now time.Time) error
	LastApproval(ctx context.Context, requester, requestID string) (store.Approval, error)
	Approvals
}

// World is what a run would meet, and what a retry would ask again.
type World interface {
	Outlook(ctx context.Context, job string) (store.Outlook, error)
	ListMissing(ctx context.Context, runID string) ([]store.Missing, error)
}

// Planner expands a request into a run with its targets and tasks. It refuses
// with a *protocol.Error.
type Planner interface {
	Expand(user string, request protocol.RunRequest, spec job.Spec, places []store.Place, now time.Time) (store.Run, []store.Place, []store.NewTask, error)
}

// Bounds are headquarters' own, of every run.
type Bounds struct {
	// Limits are those of all runs together, as the planner and admission have them.
	Limits job.Limits
	// ApprovalOver: a run over more stores needs approval; 0: none does for its
	// size.
	ApprovalOver int
}

// Config is what a Trigger needs.
type Config struct {
	Runs     Runs
	Tasks    Tasks
	Register Register
	World    World
	Planner  Planner
	Jobs     *job.Registry
	Sender   *transport.Sender
	// People says who may ask; nil: everybody is an operator who may approve.
	People *people.People
	// Waiting tells how many claims of a run wait for a slot; nil: none is known.
	Waiting func(runID string) int
	// Sound says what keeps headquarters from working; nil: nothing ever does. Who
	// asks for the jobs asks whether it works, too.
	Sound  func(ctx context.Context) error
	Now    func() time.Time
	Steady func() time.Time // never steps, for limits; nil: time.Now
	Logger *slog.Logger
	// Ward keeps in, and tells of, what makes headquarters panic; nil: nobody is
	// told but who asked.
	Ward *quarantine.Ward
	// Rate and Burst, and those of technicians, of 0 mean the defaults.
	Rate            rate.Limit
	Burst           int
	TechnicianRate  rate.Limit
	TechnicianBurst int
	Bounds          Bounds // until Limit changes them
	// Approved does what is approved and is no run, see KeysRequest; DecidedBy
	// is who approves. When it fails the approval waits on. It must do nothing
	// more when the same approval comes again: a crash may come before it is
	// noted as approved. nil: nothing else can be asked for.
	Approved func(ctx context.Context, a store.Approval) error
	// Rotated tells which keys an approval made; nil: nobody is told.
	Rotated func(approvalID string) (identity.Rotated, bool)
}

func (c *Config) setDefaults() {
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
	if c.Burst == 0 {
		c.Burst = DefaultBurst
	}
	if c.TechnicianRate == 0 {
		c.TechnicianRate = DefaultTechnicianRate
	}
	if c.TechnicianBurst == 0 {
		c.TechnicianBurst = DefaultTechnicianBurst
	}
	if c.Steady == nil {
		c.Steady = time.Now
	}
	if c.Waiting == nil {
		c.Waiting = func(string) int { return 0 }
	}
	if c.Sound == nil {
		c.Sound = func(context.Context) error { return nil }
	}
	if c.People == nil {
		c.People = people.Anonymous()
	}
}
