package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// maxRejectedBytes bounds one refused payload that is kept: every message
	// that passed the broker's own limit fits.
	maxRejectedBytes = protocol.MaxPayloadBytes
	// maxRejectedRows bounds the refused payloads a task, against a terminal
	// that sends a different one each time.
	maxRejectedRows = 16
)

// Settle ends the current attempt as headquarters judged it: the move, the
// execution record and a refused payload in one transaction. It is idempotent.
// It answers, in this order: NOT_FOUND for an unknown task or another store's;
// Duplicate when this answer (attempt, terminal, sha256) is stored; SETTLED
// when the task is over; STALE when the attempt is not the running one of this
// terminal; LATE or Recorded when the barrier closed and the run's policy does
// not accept; else the move.
func (s *Store) Settle(ctx context.Context, a Answer, now time.Time) (Settled, error) {
	known := a.Known
	settled, err := write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (Settled, error) {
		if known != nil {
			t := *known
			known = nil // should this run again, something is not as it seems
			if ok, err := settleKnown(tx, &t, a, now, changes); ok || err != nil {
				return Settled{Task: t, Applied: true}, err
			}
		}
		return settle(ctx, tx, a, now, changes)
	})
	if err != nil {
		return Settled{}, fmt.Errorf("cannot settle attempt %d of task %s: %w", a.Attempt.Attempt, a.Attempt.TaskID, err)
	}
	return settled, nil
}

func settle(ctx context.Context, tx *sqlite.Tx, a Answer, now time.Time, changes *[]Change) (Settled, error) {
	c, err := sqlite.One(ctx, tx, scanClaimed, selectClaimed, a.Attempt.Attempt, a.Attempt.TaskID)
	if errors.Is(err, ErrNotFound) || err == nil && c.task.StoreID != a.Attempt.StoreID {
		return Settled{Refusal: protocol.CodeNotFound}, nil
	}
	if err != nil {
		return Settled{}, err
	}
	t := c.task
	own := c.attempt.Attempt != 0 && c.attempt.TerminalID == a.Attempt.TerminalID
	answered := own && !c.attempt.ReceivedAt.IsZero()
	if answered && a.Attempt.Answer != "" && c.attempt.SHA256 == a.Attempt.SHA256 {
		return Settled{Task: t, Duplicate: true, Late: c.attempt.Late}, nil
	}
	if refusal := refuseAnswer(t, a, own, answered); refusal != "" {
		return Settled{Task: t, Refusal: refusal}, keepRejected(tx, a, refusal, a.Rejected, now)
	}
	late := a.Attempt.Answer != "" && !c.barrierClosedAt.IsZero() // headquarters' own word is never late
	if late && c.policy.Late == job.Reject {
		payload := a.Rejected
		if payload == nil {
			payload = a.Attempt.Result
		}
		return Settled{Task: t, Refusal: protocol.CodeLate, Late: true}, keepRejected(tx, a, protocol.CodeLate, payload, now)
	}
	if err := keepRejected(tx, a, failureCode(a.Attempt), a.Rejected, now); err != nil {
		return Settled{}, err
	}
	if late && c.policy.Late == job.RecordOnly {
		_, err := recordAnswer(tx, c, a.Attempt, late, time.Time{}, now)
		return Settled{Task: t, Applied: true, Recorded: true, Late: true}, err
	}
	return applyAnswer(tx, c, a, late, now, changes)
}

// claimed is a task, the attempt of it that an answer is for, if there is one, and
// what its run does with an answer now.
type claimed struct {
	task            Task
	attempt         Attempt
	barrierClosedAt time.Time
	policy          job.Policy // once the barrier is closed
}

const selectClaimed = `SELECT ` + taskColumns + `, ` + attemptColumns + `, +r.barrier_closed_at "",
	CASE WHEN r.barrier_closed_at = 0 THEN NULL ELSE r.policy END ""` + taskTables + `
	LEFT JOIN attempts a ON a.task_id = k.task_id AND a.attempt = ? WHERE k.task_id = ?`

func scanClaimed(row sqlite.Row) (claimed, error) {
	var c claimed
	err := row.Scan(slices.Concat(c.task.dest(), c.attempt.dest(),
		[]any{sqlite.Moment{Into: &c.barrierClosedAt}, sqlite.Document{Content: &c.policy}})...)
	return c, err
}

// refuseAnswer checks the fence.
func refuseAnswer(t Task, a Answer, own, answered bool) protocol.Code {
	word := a.Attempt.Answer == "" // headquarters' own
	switch {
	case t.State.Settled:
		return protocol.CodeSettled
	case !own, a.Attempt.Attempt != t.State.Attempt:
		return protocol.CodeStale
	case t.State.Status == task.Running:
		if answered && !word {
			return protocol.CodeStale // another answer was recorded before
		}
		return ""
	case word && a.Event == task.GiveUp:
		return "" // ends the wait for a retry
	}
	return protocol.CodeStale
}

func applyAnswer(tx *sqlite.Tx, c claimed, a Answer, late bool, now time.Time, changes *[]Change) (Settled, error) {
	ended, err := recordAnswer(tx, c, a.Attempt, late, now, now)
	if err != nil {
		return Settled{}, err
	}
	t := c.task
	event, from := a.on(t), t.State
	ok, err := move(tx, &t, event, now, a.end(event, now))
	if err != nil {
		return Settled{}, err
	}
	if !ok {
		return Settled{}, fmt.Errorf("cannot %s a task in state %s", event, from.Status)
	}
	if late && t.State.Settled {
		if _, err := tx.Exec(`UPDATE runs SET late_count = late_count + 1 WHERE run_id = ?`, t.RunID); err != nil {
			return Settled{}, fmt.Errorf("cannot count a late answer: %w", err)
		}
	}
	*changes = append(*changes, moved(t, from, event, &ended, late))
	return Settled{Task: t, Applied: true, Late: late}, nil
}

// on is what the answer is to a task.
func (a Answer) on(t Task) task.Event {
	if a.Event == task.Fail && t.State.Attempt >= t.Attempts {
		return task.GiveUp // or it would wait for a retry that never comes
	}
	return a.Event
}

// end sets what a task has of the answer that ended its attempt.
func (a Answer) end(event task.Event, now time.Time) func(*Task) {
	return func(after *Task) {
		after.Reason = a.Reason
		switch event {
		case task.Fail:
			after.LastCode, after.NextAttemptAt = failureCode(a.Attempt), a.RetryAt
			if a.RetryAt.IsZero() {
				after.NextAttemptAt = now
			}
		case task.GiveUp:
			after.LastCode = failureCode(a.Attempt)
		case task.Succeed, task.Cancel, task.Grant:
		}
	}
}

func failureCode(a Attempt) protocol.Code {
	if a.Failure == nil {
		return ""
	}
	return a.Failure.Code
}

// recordAnswer stores what the terminal said, and that the attempt ended then unless
// that is zero. Headquarters' own word only adds its failure, and only where nobody
// answered. It returns the record as a later read would, but for columns that are nil.
func recordAnswer(tx *sqlite.Tx, c claimed, a Attempt, late bool, ended, now time.Time) (Attempt, error) {
	after := c.attempt
	var err error
	if a.Answer == "" {
		if after.ReceivedAt.IsZero() && c.task.State.Status == task.Running {
			after.Failure = a.Failure
		}
		_, err = tx.Exec(`UPDATE attempts SET failure = CASE WHEN received_at = 0 THEN ? ELSE failure END, ended_at = ?, code = ?
			WHERE task_id = ? AND attempt = ? AND ended_at = 0`,
			sqlite.Optional(a.Failure, a.Failure != nil), sqlite.Millis(ended), failureCode(a), a.TaskID, a.Attempt)
	} else {
		if after.StartedAt.IsZero() && a.Executed {
			after.StartedAt = sqlite.Stored(startedBy(a, after.GrantedAt, now))
		}
		after.answered(a, late, now)
		_, err = storeAnswer(tx, a, late, ended, now)
	}
	if err != nil {
		return Attempt{}, fmt.Errorf("cannot record the answer: %w", err)
	}
	return after, nil
}

// answered takes what an answer says into the record.
func (a *Attempt) answered(by Attempt, late bool, now time.Time) {
	a.ReceivedAt, a.TerminalFrom, a.TerminalTo = sqlite.Stored(now), sqlite.Stored(by.TerminalFrom), sqlite.Stored(by.TerminalTo)
	a.Duration, a.Answer, a.Executed, a.Late, a.ExitCode = by.Duration.Truncate(time.Millisecond), by.Answer, by.Executed, late, by.ExitCode
	a.Failure, a.SHA256, a.Bytes, a.Columns, a.OutputTail, a.Redacted = by.Failure, by.SHA256, by.size(), by.Columns, by.OutputTail, by.Redacted
}

func (a Attempt) size() int64 { return cmp.Or(a.Bytes, int64(len(a.Result))) }

// storeAnswer stores an answer in its record, unless that has one; n is how many it
// was stored in.
func storeAnswer(tx *sqlite.Tx, a Attempt, late bool, ended, now time.Time) (n int64, err error) {
	code := protocol.Code("")
	if !ended.IsZero() {
		code = failureCode(a)
	}
	return tx.Exec(`UPDATE attempts SET started_at = CASE WHEN started_at = 0 AND ? THEN max(granted_at, ?) ELSE started_at END,
			received_at = ?, terminal_from = ?, terminal_to = ?, duration_ms = ?, answer = ?,
			executed = ?, late = ?, exit_code = ?, failure = ?, sha256 = ?, bytes = ?, columns = ?, output_tail = ?, result = ?, redacted = ?,
			ended_at = ?, code = ?
		WHERE task_id = ? AND attempt = ? AND received_at = 0`,
		a.Executed, sqlite.Millis(startedBy(a, time.Time{}, now)), sqlite.Millis(now), sqlite.Millis(a.TerminalFrom), sqlite.Millis(a.TerminalTo),
		a.Duration.Milliseconds(), a.Answer, a.Executed, late, a.ExitCode, sqlite.Optional(a.Failure, a.Failure != nil), a.SHA256, a.size(),
		sqlite.Optional(a.Columns, a.Columns != nil), a.OutputTail, sqlite.Text(a.Result), a.Redacted, sqlite.Millis(ended), code, a.TaskID, a.Attempt)
}

// startedBy is when an attempt that gave no sign of life had started at the latest:
// by how long it took as its terminal measured it, and on headquarters' clock.
func startedBy(a Attempt, granted, now time.Time) time.Time {
	at := now.Add(-max(0, a.Duration, a.TerminalTo.Sub(a.TerminalFrom)))
	if at.Before(granted) {
		return granted
	}
	return at
}

// keepRejected keeps a refused payload for reading, cut to a size and to a
// number a task.
func keepRejected(tx *sqlite.Tx, a Answer, code protocol.Code, payload []byte, now time.Time) error {
	if payload == nil {
		return nil
	}
	at := a.Attempt
	cut := payload[:min(len(payload), maxRejectedBytes)]
	_, err := tx.Exec(`INSERT INTO rejected_results (task_id, attempt, store_id, terminal_id, received_at, code, failure, sha256, bytes, payload)
		SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM rejected_results WHERE task_id = ?) < ?
		ON CONFLICT DO NOTHING`,
		at.TaskID, at.Attempt, at.StoreID, at.TerminalID, sqlite.Millis(now), code, sqlite.Optional(at.Failure, at.Failure != nil),
		at.SHA256, len(payload), append([]byte{}, cut...), at.TaskID, maxRejectedRows)
	if err != nil {
		return fmt.Errorf("cannot keep a refused payload: %w", err)
	}
	return nil
}

// Rejected is a refused payload, kept for reading. Bytes is its whole length;
// Payload may be cut.
type Rejected struct {
	TaskID     string
	Attempt    int
	StoreID    string
	TerminalID string
	ReceivedAt time.Time
	Code       protocol.Code
	Failure    *protocol.Failure
	SHA256     string
	Bytes      int64
	Payload    []byte
}

// ListRejected returns the task's refused payloads, oldest first.
func (s *Store) ListRejected(ctx context.Context, taskID string) ([]Rejected, error) {
	rejected, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (Rejected, error) {
		var r Rejected
		err := row.Scan(&r.TaskID, &r.Attempt, &r.StoreID, &r.TerminalID, sqlite.Moment{Into: &r.ReceivedAt}, &r.Code,
			sqlite.Document{Content: &r.Failure}, &r.SHA256, &r.Bytes, &r.Payload)
		return r, err
	}, `SELECT task_id, attempt, store_id, terminal_id, received_at, code, failure, sha256, bytes, payload
		FROM rejected_results WHERE task_id = ? ORDER BY id`, taskID)
	if err != nil {
		return nil, fmt.Errorf("cannot list refused payloads of task %s: %w", taskID, err)
	}
	return rejected, nil
}
