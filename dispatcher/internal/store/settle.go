package store

import (
	"context"
	"errors"
	"fmt"
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
	settled, err := write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (Settled, error) {
		return settle(ctx, tx, a, now, changes)
	})
	if err != nil {
		return Settled{}, fmt.Errorf("cannot settle attempt %d of task %s: %w", a.Attempt.Attempt, a.Attempt.TaskID, err)
	}
	return settled, nil
}

func settle(ctx context.Context, tx *sqlite.Tx, a Answer, now time.Time, changes *[]Change) (Settled, error) {
	t, err := sqlite.One(ctx, tx, scanTask, selectTask, a.Attempt.TaskID)
	if errors.Is(err, ErrNotFound) || err == nil && t.StoreID != a.Attempt.StoreID {
		return Settled{Refusal: protocol.CodeNotFound}, nil
	}
	if err != nil {
		return Settled{}, err
	}
	before, err := attemptOf(ctx, tx, t.TaskID, a.Attempt.Attempt)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Settled{}, err
	}
	own := err == nil && before.TerminalID == a.Attempt.TerminalID
	answered := own && !before.ReceivedAt.IsZero()
	if answered && a.Attempt.Answer != "" && before.SHA256 == a.Attempt.SHA256 {
		return Settled{Task: t, Duplicate: true, Late: before.Late}, nil
	}
	if refusal := refuseAnswer(t, a, own, answered); refusal != "" {
		return Settled{Task: t, Refusal: refusal}, keepRejected(tx, a, refusal, a.Rejected, now)
	}
	policy, late, err := latePolicy(ctx, tx, t.RunID, a)
	if err != nil {
		return Settled{}, err
	}
	if late && policy == job.Reject {
		payload := a.Rejected
		if payload == nil {
			payload = a.Attempt.Result
		}
		return Settled{Task: t, Refusal: protocol.CodeLate, Late: true}, keepRejected(tx, a, protocol.CodeLate, payload, now)
	}
	if err := keepRejected(tx, a, failureCode(a.Attempt), a.Rejected, now); err != nil {
		return Settled{}, err
	}
	if err := recordAnswer(tx, a.Attempt, late, now); err != nil {
		return Settled{}, err
	}
	if late && policy == job.RecordOnly {
		return Settled{Task: t, Applied: true, Recorded: true, Late: true}, nil
	}
	return applyAnswer(ctx, tx, t, a, late, now, changes)
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

// latePolicy tells whether a terminal's answer comes after the barrier, and
// what the run does with it then.
func latePolicy(ctx context.Context, tx *sqlite.Tx, runID string, a Answer) (job.LatePolicy, bool, error) {
	if a.Attempt.Answer == "" {
		return "", false, nil
	}
	run, err := sqlite.One(ctx, tx, func(row sqlite.Row) (Run, error) {
		var r Run
		err := row.Scan(sqlite.Moment{Into: &r.BarrierClosedAt}, sqlite.Document{Content: &r.Policy})
		return r, err
	}, `SELECT barrier_closed_at, CASE WHEN barrier_closed_at = 0 THEN NULL ELSE policy END FROM runs WHERE run_id = ?`, runID)
	return run.Policy.Late, !run.BarrierClosedAt.IsZero(), err
}

func applyAnswer(ctx context.Context, tx *sqlite.Tx, t Task, a Answer, late bool, now time.Time, changes *[]Change) (Settled, error) {
	event, from := a.Event, t.State
	if event == task.Fail && t.State.Attempt >= t.Attempts {
		event = task.GiveUp // or it would wait for a retry that never comes
	}
	ok, err := move(tx, &t, event, now, func(after *Task) {
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
	})
	if err != nil {
		return Settled{}, err
	}
	if !ok {
		return Settled{}, fmt.Errorf("cannot %s a task in state %s", event, from.Status)
	}
	if err := endAttempt(tx, t, failureCode(a.Attempt), now); err != nil {
		return Settled{}, err
	}
	if late && t.State.Settled {
		if _, err := tx.Exec(`UPDATE runs SET late_count = late_count + 1 WHERE run_id = ?`, t.RunID); err != nil {
			return Settled{}, fmt.Errorf("cannot count a late answer: %w", err)
		}
	}
	ended, err := attemptOf(ctx, tx, t.TaskID, t.State.Attempt)
	*changes = append(*changes, moved(t, from, event, &ended, late))
	return Settled{Task: t, Applied: true, Late: late}, err
}

func failureCode(a Attempt) protocol.Code {
	if a.Failure == nil {
		return ""
	}
	return a.Failure.Code
}

// recordAnswer stores what the terminal said. Headquarters' own word only adds
// its failure, and only where nobody answered.
func recordAnswer(tx *sqlite.Tx, a Attempt, late bool, now time.Time) error {
	failure := sqlite.Optional(a.Failure, a.Failure != nil)
	var err error
	if a.Answer == "" {
		_, err = tx.Exec(`UPDATE attempts SET failure = ? WHERE task_id = ? AND attempt = ? AND received_at = 0 AND ended_at = 0`,
			failure, a.TaskID, a.Attempt)
	} else {
		bytes := a.Bytes
		if bytes == 0 {
			bytes = int64(len(a.Result))
		}
		_, err = tx.Exec(`UPDATE attempts SET received_at = ?, terminal_from = ?, terminal_to = ?, duration_ms = ?, answer = ?,
				executed = ?, late = ?, exit_code = ?, failure = ?, sha256 = ?, bytes = ?, columns = ?, output_tail = ?, result = ?, redacted = ?
			WHERE task_id = ? AND attempt = ? AND received_at = 0`,
			sqlite.Millis(now), sqlite.Millis(a.TerminalFrom), sqlite.Millis(a.TerminalTo), a.Duration.Milliseconds(), a.Answer,
			a.Executed, late, a.ExitCode, failure, a.SHA256, bytes, sqlite.Optional(a.Columns, a.Columns != nil), a.OutputTail, sqlite.Text(a.Result), a.Redacted,
			a.TaskID, a.Attempt)
	}
	if err != nil {
		return fmt.Errorf("cannot record the answer: %w", err)
	}
	return nil
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
