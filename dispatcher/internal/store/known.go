package store

import (
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/task"
)

// A task need not be read by whoever was told how it stands: status and attempt name
// one state of it for good, since no move leads back, and what else is relied on is
// asked for in the move's own statement. If that finds no row, all is read.

// moveClaimed grants a task as it was read for a claim: no restore and no noting of the
// claim came between, and no newer run can take its place.
const moveClaimed = moveTask + ` AND claimed_at = ? AND floor = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE run_id = ? AND revision > 0)`

// grantKnown is Grant of a task as it is known. It returns false where it takes a look.
func grantKnown(tx *sqlite.Tx, t *Task, g Grant, now time.Time, changes *[]Change) (granted bool, err error) {
	if t.TaskID != g.TaskID || refuseGrant(*t, g, now) != "" || t.Floor > t.State.Attempt {
		return false, nil
	}
	from := t.State
	ok, err := moveIf(tx, t, task.Grant, now, g.hold(now), moveClaimed, sqlite.Millis(t.ClaimedAt), t.Floor, t.RunID)
	if err != nil || !ok {
		return false, err
	}
	return true, beginAttempt(tx, *t, from, g, now, changes)
}

// moveAnswered ends a running attempt whose answer cannot be late: nothing but a late
// one is ever recorded without a move.
const moveAnswered = moveTask + ` AND holder_id = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE run_id = ? AND barrier_closed_at <> 0)`

// settleKnown is Settle of the terminal's answer to a running task as it is known. It
// returns false where it takes a look.
func settleKnown(tx *sqlite.Tx, t *Task, a Answer, now time.Time, changes *[]Change) (settled bool, err error) {
	own := t.TaskID == a.Attempt.TaskID && t.StoreID == a.Attempt.StoreID && t.HolderID == a.Attempt.TerminalID
	if !own || t.State.Status != task.Running || t.State.Attempt != a.Attempt.Attempt || a.Attempt.Answer == "" || a.Rejected != nil {
		return false, nil
	}
	event, from := a.on(*t), t.State
	ok, err := moveIf(tx, t, event, now, a.end(event, now), moveAnswered, t.HolderID, t.RunID)
	if err != nil || !ok {
		return false, err
	}
	n, err := storeAnswer(tx, a.Attempt, false, now, now)
	if err == nil && n != 1 {
		err = fmt.Errorf("the running attempt has an answer already") // all is undone, and read then
	}
	if err != nil {
		return false, err
	}
	ended := Attempt{TaskID: t.TaskID, Attempt: from.Attempt, StoreID: t.StoreID, TerminalID: t.HolderID}
	ended.answered(a.Attempt, false, now)
	*changes = append(*changes, moved(*t, from, event, &ended, false))
	return true, nil
}
