package store

import (
	"encoding/json"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store/internal/custody"
	"muster/dispatcher/internal/store/internal/gatehouse"
	"muster/dispatcher/internal/store/internal/ledger"
	"muster/dispatcher/internal/store/internal/roster"
	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Errors that callers test for.
var (
	// ErrNotFound: no such run, task, request, key or approval.
	ErrNotFound = sqlite.ErrNotFound
	// ErrExists: the revision is complete already.
	ErrExists = ledger.ErrExists
	// ErrTokenInvalid: the token is unknown, used, voided or expired; the text
	// says which.
	ErrTokenInvalid = gatehouse.ErrTokenInvalid
	// ErrKeyTaken: the public key is another terminal's, or revoked.
	ErrKeyTaken = gatehouse.ErrKeyTaken
	// ErrDecided: the approval is no longer pending; the text says why.
	ErrDecided = gatehouse.ErrDecided
	// ErrSamePerson: who asked may not approve.
	ErrSamePerson = gatehouse.ErrSamePerson
	// ErrLocked: another process holds the database; the text says which.
	ErrLocked = custody.ErrLocked
	// ErrNewerSchema: the database was written by a newer program.
	ErrNewerSchema = sqlite.ErrNewerSchema
	// ErrRestoring: a restore was cut off, and must be run again.
	ErrRestoring = sqlite.ErrRestoring
	// ErrCorrupt: the integrity check failed; the text says how to restore.
	ErrCorrupt = custody.ErrCorrupt
	// ErrGone: the files of the open database were removed, moved or replaced; the
	// text says where what was stored is saved. Nothing is stored any more.
	ErrGone = custody.ErrGone
	// ErrNoSpace: the disk takes no more; nothing of the write was stored. It may
	// be tried again: the store recovers by itself when there is room.
	ErrNoSpace = sqlite.ErrNoSpace
	// ErrBroken: the write itself broke, by a panic or against the schema. Nothing
	// of it was stored, and it would break again.
	ErrBroken = sqlite.ErrBroken
	// ErrClosed: the store was closed.
	ErrClosed = sqlite.ErrClosed
)

// Place is a store of the chain as the register knows it.
type Place = roster.Place

// Run is one execution of a job over a frozen list of stores. ClosedBarrierAt
// and ClosedAt are zero until they happen; the phase follows from them.
type Run struct {
	RunID           string
	Job             string
	JobVersion      int
	RequestedBy     string
	ApprovedBy      string // "" when nobody had to
	Reason          string
	Input           json.RawMessage
	Policy          job.Policy
	Columns         []protocol.Column
	Targets         int
	CreatedAt       time.Time
	BarrierAt       time.Time // the deadline of revision 1
	MakeupUntil     time.Time
	BarrierClosedAt time.Time
	ClosedAt        time.Time
	Revision        int // the newest complete revision, 0 before the barrier

	ParentRun string    // the run whose missing targets this one asks again; "": none
	Merged    int       // the newest revision that was merged into the parent's report
	OrderedAt time.Time // what leans on the day of the order leans on this; a retry has its parent's
}

// Phase derives where the run stands, in this order: closed once ClosedAt is
// set, make-up once the barrier closed, else collecting.
func (r Run) Phase() protocol.Phase {
	switch {
	case !r.ClosedAt.IsZero():
		return protocol.PhaseClosed
	case !r.BarrierClosedAt.IsZero():
		return protocol.PhaseMakeup
	}
	return protocol.PhaseCollecting
}

// Task is one task record without its result. TerminalID names the only
// terminal that may do it, or is empty. HolderID is the terminal that holds or
// last held the current attempt.
type Task struct {
	TaskID        string
	RunID         string
	StoreID       string
	TerminalID    string
	Type          string
	Input         json.RawMessage // the run's unless the task has its own
	State         task.State
	Attempts      int // the number of the last attempt that is allowed; see Allowed
	Floor         int // the next attempt's number is above it; see Restore
	Skipped       int // numbers of attempts that a restore left out
	HolderID      string
	Instance      string        // the process of the holder that asked; "": not known
	LastCode      protocol.Code // how the last failed attempt ended
	Reason        task.Reason   // given with the move that settled it or failed its attempt
	NextAttemptAt time.Time     // zero unless FAILED and a retry is to follow
	ClaimedAt     time.Time     // the first claim, zero if none
	Deadline      time.Time     // the run's barrier
	QueueDeadline time.Time     // the run's make-up end
	CreatedAt     time.Time
	SettledAt     time.Time
}

// Used is how many attempts were granted. It is not the number of the current
// one where a restore left numbers out.
func (t Task) Used() int { return t.State.Attempt - t.Skipped }

// Allowed is how many executions the task may have.
func (t Task) Allowed() int { return t.Attempts - t.Skipped }

// Request identifies what a user asked, for de-duplication. ContentHash is
// the SHA-256 of the canonical request in lower-case hex, Members says in which of its
// members another one differs; "" when it was made by a program that kept none.
type Request struct {
	User        string
	RequestID   string
	ContentHash string
	Members     string
}

// NewTask is one task to be created.
type NewTask struct {
	TaskID     string
	StoreID    string
	TerminalID string
	Input      json.RawMessage // nil: the run's
}

// Created tells what CreateRun did.
type Created struct {
	Run       Run
	Duplicate bool // the same request made this run before
	Conflict  bool // the request id is taken by other content; Run is the first one
}

// Attempt is one execution record. Result is empty in lists. SHA256 and Bytes
// are what the terminal announced until ReceivedAt is set, then the answer's.
type Attempt struct {
	TaskID     string
	Attempt    int
	StoreID    string
	TerminalID string
	GrantedAt  time.Time
	// StartedAt is the first sign of life, on headquarters' clock; without one it is
	// when the attempt had started at the latest, as its answer tells.
	StartedAt    time.Time
	LastSignAt   time.Time
	ReadyAt      time.Time
	LeaseUntil   time.Time
	ReceivedAt   time.Time // the answer was committed
	TerminalFrom time.Time // start and end by the terminal's clock
	TerminalTo   time.Time
	Duration     time.Duration
	Answer       protocol.Answer
	Executed     bool
	ExitCode     *int
	OutputTail   string
	Failure      *protocol.Failure
	Result       json.RawMessage
	SHA256       string
	Bytes        int64
	Columns      []json.RawMessage
	Late         bool
	Redacted     int // places that headquarters had to black out
}

// Running is a task that runs now, with its current attempt.
type Running struct {
	Task    Task
	Attempt Attempt
}

// Grant asks to start the next attempt of a task. It is applied only if the
// task is open, not running, due, of this store, addressed to this terminal or
// to none, and has attempts left. A task of another store or addressed to
// another terminal is NOT_FOUND to the asking one.
type Grant struct {
	TaskID     string
	StoreID    string
	TerminalID string
	Instance   string // the process that asks; "": not known
	LeaseUntil time.Time
	Known      *Task // the task as the store said before, which spares reading it if it is still so; nil: it is read
}

// Granted tells what Grant did. Refusal is empty when it was applied, or one of
// NOT_FOUND, SETTLED, TAKEN, NOT_YET. When Refusal is TAKEN and HolderID is the
// asking terminal, the running attempt is its own: the grant was lost.
type Granted struct {
	Task    Task
	Refusal protocol.Code
}

// Sign is a sign of life of a running attempt: it renews the lease, and the
// first one marks the start. ReadyBytes above 0 announces a large result.
type Sign struct {
	TaskID     string
	Attempt    int
	StoreID    string
	TerminalID string
	LeaseUntil time.Time
	ReadyBytes int64
	SHA256     string
}

// Answer is how an attempt ended, as headquarters judged it. Event is
// task.Succeed, task.Fail, task.GiveUp or task.Cancel. Attempt's fields are
// what the terminal said; RetryAt is set with task.Fail, which becomes a GiveUp
// when no attempt is left. Rejected, when not nil, is the refused payload, kept
// for reading.
//
// An Attempt without Answer is headquarters' own word (a lease that ended): it
// is never late, and with task.GiveUp it may also end the wait for a retry.
type Answer struct {
	Attempt  Attempt
	Event    task.Event
	Reason   task.Reason
	RetryAt  time.Time
	Rejected []byte
	Known    *Task // the running task as the store said before, which spares reading it if it is still so; nil: it is read
}

// Settled tells what became of an answer.
type Settled struct {
	Task Task
	// Applied: the move was made (or, when Recorded, the answer stored).
	Applied bool
	// Recorded: stored with its attempt without a move, by the late policy.
	Recorded bool
	// Duplicate: the same answer (attempt and sha256) was stored before.
	Duplicate bool
	// Refusal is NOT_FOUND, STALE, SETTLED or LATE when nothing changed.
	Refusal protocol.Code
	// Late: it came after the barrier.
	Late bool
}

// Terminal is what headquarters knows of one terminal.
type Terminal = roster.Terminal

// OtherTerminalError says whose a token is.
type OtherTerminalError = gatehouse.OtherTerminalError

// Enrolment lets one terminal in, once, until it expires.
type Enrolment = gatehouse.Enrolment

// TerminalKey is a public key of a terminal and one certificate of it.
type TerminalKey = gatehouse.TerminalKey

// Approval is something that one person asked for and another has to approve.
type Approval = gatehouse.Approval

// The kinds of approval.
const (
	ApprovalRun  = gatehouse.KindRun
	ApprovalKeys = gatehouse.KindKeys
)

// The states of an approval: it begins as pending and is decided once.
const (
	ApprovalPending  = gatehouse.StatePending
	ApprovalApproved = gatehouse.StateApproved
	ApprovalRejected = gatehouse.StateRejected
	ApprovalExpired  = gatehouse.StateExpired
	ApprovalVoid     = gatehouse.StateVoid
)

// Candidate is one target as it stands in a snapshot, ready to be judged.
type Candidate struct {
	Place     Place
	Task      Task
	Attempt   *Attempt // the current one, without result; nil before the first
	SameCodes bool     // all failed attempts ended with the same code
	Tries     []Try    // every attempt by number; nil where there is none, or a lone one that succeeded
	Online    bool     // any terminal of the store
	LastSeen  time.Time
	SkewMs    *int64
}

// Try is one attempt of a task as a report lists it, in UTC.
type Try = protocol.Try

// OutcomeRow is one target's row in a revision.
type OutcomeRow = ledger.OutcomeRow

// NewRevision is a revision to be stored.
type NewRevision = ledger.NewRevision

// Revision is a stored revision.
type Revision = ledger.Revision

// ChangeKind tells changes apart.
type ChangeKind string

// The kinds of change.
const (
	// RunCreated: the run and all its tasks are committed.
	RunCreated ChangeKind = "run_created"
	// TaskMoved: one task took a row of the moves table.
	TaskMoved ChangeKind = "task_moved"
	// RevisionReady: a revision is complete in the store.
	RevisionReady ChangeKind = "revision_ready"
	// RunClosed: the make-up window ended or everything is settled.
	RunClosed ChangeKind = "run_closed"
)

// Change is told to observers after its commit, in commit order. Task and From
// are set for TaskMoved; Run for RunCreated and RunClosed.
type Change struct {
	Kind     ChangeKind
	RunID    string
	Run      *Run
	Task     *Task
	From     task.State
	Event    task.Event
	Attempt  *Attempt // of a TaskMoved that ended an attempt, as it was answered: without result, and without the times of before where they were not read
	Late     bool
	Revision int
}
