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
	"muster/dispatcher/internal/trigger/approval"
	"muster/dispatcher/internal/trigger/once"
	"muster/dispatcher/internal/trigger/wish"
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

// Runs is what changes.
type Runs interface {
	CreateRun(ctx context.Context, run store.Run, places []store.Place, tasks []store.NewTask, req store.Request, now time.Time) (store.Created, error)
	CreateApprovedRun(ctx context.Context, approvalID, by string, run store.Run, places []store.Place, tasks []store.NewTask, req store.Request, now time.Time) (store.Created, error)
	Cancel(ctx context.Context, runID string, stores []string, reason task.Reason, by string, now time.Time) ([]store.Task, int, error)
	once.Runs
}

// Tasks is what a status tells.
type Tasks interface {
	CountTasks(ctx context.Context, runID string) (map[task.Status]int, int, error)
	CountOnline(ctx context.Context, runID string) (int, error)
	GetTaskOf(ctx context.Context, runID, storeID string) ([]store.Task, error)
	GetResult(ctx context.Context, taskID string, attempt int) (store.Attempt, error)
}

// World is what runs meet, and the book of who did what.
type World interface {
	wish.World
	Outlook(ctx context.Context, job string) (store.Outlook, error)
	Audit(ctx context.Context, actor, action, subject, detail string, now time.Time) error
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
	Runs      Runs
	Tasks     Tasks
	World     World
	Approvals approval.Approvals
	Past      approval.Past
	Planner   wish.Planner
	Jobs      *job.Registry
	Sender    *transport.Sender
	// People says who may ask; nil: everybody is an operator who may approve.
	People *people.People
	// Waiting tells how many claims of a run wait for a slot; nil: none is known.
	Waiting func(runID string) int
	// Sound says what keeps headquarters from working; nil: nothing ever does. Who
	// asks for the jobs asks whether it works, too.
	Sound  func(ctx context.Context) error
	Now    func() time.Time
	Steady func() time.Time // never steps, for limits; nil: time.Now
	Zone   *time.Location   // in which sentences for people show times; nil: UTC
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
	// Approved does what is approved and is no run, see approval.Desk.
	Approved func(ctx context.Context, a store.Approval) error
	Rotated  func(approvalID string) (identity.Rotated, bool)
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
	if c.Zone == nil {
		c.Zone = time.UTC
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
