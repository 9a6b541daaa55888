// Package task holds the life of a task: its states, the one table of legal
// moves, and the outcomes that the barrier derives from them.
//
// It imports nothing but the standard library, does no I/O and asks no clock,
// so that every program and every test can share one truth. The database
// repeats the table as CHECK constraints; a test compares the two.
package task

import "fmt"

// Status is the state of a task record, in the spelling used on every wire,
// file and API.
type Status string

// The five states. Who moves a task into each is said beside it.
const (
	// Pending: created by a run; nobody executes it yet.
	Pending Status = "PENDING"
	// Running: headquarters granted an attempt to one terminal.
	Running Status = "RUNNING"
	// Succeeded: a valid result of the current attempt is stored. Terminal.
	Succeeded Status = "SUCCEEDED"
	// Failed: the current attempt ended without a valid result. Open while a
	// retry is to follow, terminal once settled.
	Failed Status = "FAILED"
	// Cancelled: a user, a deadline or the end of the make-up window withdrew
	// it. Terminal.
	Cancelled Status = "CANCELLED"
)

// Statuses lists every state once, in the order of a task's life.
func Statuses() []Status {
	return []Status{Pending, Running, Succeeded, Failed, Cancelled}
}

// Event is something that may move a task.
type Event string

// The events of the moves table.
const (
	// Grant starts the next attempt.
	Grant Event = "grant"
	// Succeed stores a valid result of the current attempt.
	Succeed Event = "succeed"
	// Fail ends the current attempt; a retry is to follow.
	Fail Event = "fail"
	// GiveUp ends the current attempt, or the wait for a retry, for good.
	GiveUp Event = "give_up"
	// Cancel withdraws the task.
	Cancel Event = "cancel"
)

// Events lists every event once.
func Events() []Event {
	return []Event{Grant, Succeed, Fail, GiveUp, Cancel}
}

// State is where a task stands.
//
// Attempt counts granted executions from 1; 0 means never granted. It is the
// fence: what belongs to a lower attempt changes nothing. Settled tells a
// Failed task whose retry is to come (false) from one that is over (true); it
// is true for Succeeded and Cancelled, and false for Pending and Running.
type State struct {
	Status  Status
	Attempt int
	Settled bool
}

// Terminal reports whether no move leaves the state.
func (s State) Terminal() bool { return s.Settled }

// Valid reports whether the parts of the state agree with each other.
func (s State) Valid() bool {
	switch s.Status {
	case Pending:
		return s.Attempt == 0 && !s.Settled
	case Running:
		return s.Attempt > 0 && !s.Settled
	case Failed:
		return s.Attempt > 0
	case Succeeded:
		return s.Attempt > 0 && s.Settled
	case Cancelled:
		return s.Attempt >= 0 && s.Settled
	}
	return false
}

// Move is one row of the moves table.
type Move struct {
	From    Status
	Event   Event
	To      Status
	Settles bool // the move ends the task
}

var moves = [...]Move{
	{Pending, Grant, Running, false},
	{Failed, Grant, Running, false},
	{Running, Succeed, Succeeded, true},
	{Running, Fail, Failed, false},
	{Running, GiveUp, Failed, true},
	{Failed, GiveUp, Failed, true},
	{Pending, Cancel, Cancelled, true},
	{Running, Cancel, Cancelled, true},
	{Failed, Cancel, Cancelled, true},
}

// Moves returns a copy of the moves table: everything that is legal, and
// nothing else.
func Moves() []Move {
	out := make([]Move, len(moves))
	copy(out, moves[:])
	return out
}

// Next returns the state after the event. It fails with a *MoveError when the
// state is terminal or the table has no such move; the state is then returned
// unchanged.
func (s State) Next(e Event) (State, error) {
	if !s.Settled {
		for _, m := range moves {
			if m.From != s.Status || m.Event != e {
				continue
			}
			next := State{Status: m.To, Attempt: s.Attempt, Settled: m.Settles}
			if e == Grant {
				next.Attempt++
			}
			return next, nil
		}
	}
	return s, &MoveError{State: s, Event: e}
}

// MoveError says that a move is not in the table.
type MoveError struct {
	State State
	Event Event
}

// Error names the state and the event.
func (e *MoveError) Error() string {
	return fmt.Sprintf("cannot %s a task in state %s (attempt %d, settled %t)",
		e.Event, e.State.Status, e.State.Attempt, e.State.Settled)
}
