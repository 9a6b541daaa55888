package store

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/task"
)

// CountTasks returns how many tasks of the run are in each status (absent: 0)
// and how many are not settled. An unknown run has none.
func (s *Store) CountTasks(ctx context.Context, runID string) (counts map[task.Status]int, open int, err error) {
	found := make([]int, len(task.Statuses())+1) // the last is open
	_, err = sqlite.One(ctx, s.db.Readers(), func(row sqlite.Row) (struct{}, error) {
		into := make([]any, len(found))
		for i := range found {
			into[i] = &found[i]
		}
		return struct{}{}, row.Scan(into...)
	}, tallyTasks(), runID)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot count tasks of run %s: %w", runID, err)
	}
	counts = map[task.Status]int{}
	for i, status := range task.Statuses() {
		if found[i] > 0 {
			counts[status] = found[i]
		}
	}
	return counts, found[len(found)-1], nil
}

// tallyTasks counts in one pass. Grouping would sort all rows first, twice the time.
var tallyTasks = sync.OnceValue(func() string {
	query := "SELECT "
	for _, status := range task.Statuses() {
		query += "count(*) FILTER (WHERE status = '" + string(status) + "'), "
	}
	return query + "count(*) FILTER (WHERE settled_at = 0) FROM tasks WHERE run_id = ?"
})

// GetTask returns the task, or ErrNotFound.
func (s *Store) GetTask(ctx context.Context, taskID string) (Task, error) {
	t, err := sqlite.One(ctx, s.db.Readers(), scanTask, selectTask, taskID)
	if err != nil {
		return Task{}, fmt.Errorf("cannot get task %s: %w", taskID, err)
	}
	return t, nil
}

// GetTaskOf returns the store's tasks in the run, by id; none is no error.
func (s *Store) GetTaskOf(ctx context.Context, runID, storeID string) ([]Task, error) {
	tasks, err := sqlite.List(ctx, s.db.Readers(), scanTask,
		`SELECT `+taskColumns+taskTables+` WHERE k.run_id = ? AND k.store_id = ? ORDER BY k.task_id`, runID, storeID)
	if err != nil {
		return nil, fmt.Errorf("cannot get tasks of store %s in run %s: %w", storeID, runID, err)
	}
	return tasks, nil
}

const openTasks = `SELECT ` + taskColumns + taskTables + ` WHERE k.settled_at = 0`

// OpenTasks yields the tasks that are not settled, of the run and of the store
// where they are not empty. It reads while the loop runs, so the loop should
// be short; reading and writing the store inside it is fine.
func (s *Store) OpenTasks(ctx context.Context, runID, storeID string) iter.Seq2[Task, error] {
	var query string
	var args []any
	switch {
	case runID == "" && storeID == "":
		query = openTasks
	case storeID == "":
		query, args = openTasks+` AND k.run_id = ? ORDER BY k.store_id`, []any{runID}
	case runID == "":
		query, args = openTasks+` AND k.store_id = ?`, []any{storeID}
	default:
		query, args = openTasks+` AND k.run_id = ? AND k.store_id = ?`, []any{runID, storeID}
	}
	return sqlite.Stream(ctx, s.db.Streams(), scanTask, query, args...)
}

// OpenTask is what a terminal is told of a task that is not settled.
type OpenTask struct {
	TaskID     string
	StoreID    string
	TerminalID string // "" for any of the store
	State      task.State
	HolderID   string // of the current or last attempt
	Instance   string // of the holder's process
}

// ListOpen returns the store's tasks that are not settled, by run; those of all
// stores for "".
func (s *Store) ListOpen(ctx context.Context, storeID string) ([]OpenTask, error) {
	query, args := openTask+` ORDER BY store_id, run_id`, []any(nil)
	if storeID != "" {
		query, args = openTask+` AND store_id = ? ORDER BY run_id`, []any{storeID}
	}
	open, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (OpenTask, error) {
		var t OpenTask
		err := row.Scan(&t.TaskID, &t.StoreID, &t.TerminalID, &t.State.Status, &t.State.Attempt, &t.HolderID, &t.Instance)
		return t, err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot list the open tasks of store %q: %w", storeID, err)
	}
	return open, nil
}

const openTask = `SELECT task_id, store_id, terminal_id, status, attempt, holder_id, holder_instance FROM tasks WHERE settled_at = 0`

// Unclaimed yields the store and the id of each task that nobody has claimed and that
// was not made within the time from young to now. It reads while the loop runs, as
// OpenTasks does.
func (s *Store) Unclaimed(ctx context.Context, young, now time.Time) iter.Seq2[[2]string, error] {
	return sqlite.Stream(ctx, s.db.Streams(), func(row sqlite.Row) (ids [2]string, err error) {
		err = row.Scan(&ids[0], &ids[1])
		return ids, err
	}, `SELECT store_id, task_id FROM tasks WHERE settled_at = 0 AND status = 'PENDING' AND claimed_at = 0
		AND NOT (created_at > ? AND created_at <= ?)`, sqlite.Millis(young), sqlite.Millis(now))
}

// ListAttempts returns the task's execution records without results, oldest
// first.
func (s *Store) ListAttempts(ctx context.Context, taskID string) ([]Attempt, error) {
	attempts, err := sqlite.List(ctx, s.db.Readers(), scanAttempt,
		`SELECT `+attemptColumns+` FROM attempts a WHERE a.task_id = ? ORDER BY a.attempt`, taskID)
	if err != nil {
		return nil, fmt.Errorf("cannot list attempts of task %s: %w", taskID, err)
	}
	return attempts, nil
}

// GetResult returns one execution record with its result, or ErrNotFound, or
// ErrCorrupt when the result is not what the terminal sent.
func (s *Store) GetResult(ctx context.Context, taskID string, attempt int) (Attempt, error) {
	a, err := sqlite.One(ctx, s.db.Readers(), func(row sqlite.Row) (Attempt, error) {
		var a Attempt
		err := row.Scan(append(a.dest(), sqlite.Raw{Into: &a.Result})...)
		return a, err
	}, `SELECT `+attemptColumns+`, a.result FROM attempts a WHERE a.task_id = ? AND a.attempt = ?`, taskID, attempt)
	if err != nil {
		return Attempt{}, fmt.Errorf("cannot get attempt %d of task %s: %w", attempt, taskID, err)
	}
	if err := checkResult(a); err != nil {
		return Attempt{}, err
	}
	return a, nil
}

// ListRunning returns every running task with its current attempt.
func (s *Store) ListRunning(ctx context.Context) ([]Running, error) {
	running, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (Running, error) {
		var r Running
		err := row.Scan(append(r.Task.dest(), r.Attempt.dest()...)...)
		return r, err
	}, `SELECT `+taskColumns+`, `+attemptColumns+taskTables+
		` JOIN attempts a ON a.task_id = k.task_id AND a.attempt = k.attempt
		WHERE k.settled_at = 0 AND k.status = 'RUNNING' ORDER BY a.granted_at, k.task_id`)
	if err != nil {
		return nil, fmt.Errorf("cannot list running tasks: %w", err)
	}
	return running, nil
}

// NoteClaim stores when the task was first claimed; later claims and claims of
// settled or unknown tasks change nothing.
func (s *Store) NoteClaim(ctx context.Context, taskID string, now time.Time) error {
	_, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		return tx.Exec(`UPDATE tasks SET claimed_at = ? WHERE task_id = ? AND claimed_at = 0 AND settled_at = 0`, sqlite.Millis(now), taskID)
	})
	if err != nil {
		return fmt.Errorf("cannot note a claim of task %s: %w", taskID, err)
	}
	return nil
}

const taskTables = ` FROM tasks k JOIN runs r ON r.run_id = k.run_id`

// Values without a name and a declared type: the driver makes a string of each for
// every query, which was a quarter of what reading a task allocates.
const taskColumns = `+k.task_id "", +k.run_id "", +k.store_id "", +k.terminal_id "", +r.job "", coalesce(k.input, r.input) "",
	+k.status "", +k.attempt "", k.settled_at <> 0 "", +k.attempts "", +k.floor "", +k.skipped "", +k.holder_id "", +k.holder_instance "", +k.last_code "",
	+k.reason "", +k.next_attempt_at "", +k.claimed_at "", +r.barrier_at "", +r.makeup_until "", +k.created_at "", +k.settled_at ""`

const selectTask = `SELECT ` + taskColumns + taskTables + ` WHERE k.task_id = ?`

// dest is where taskColumns go.
func (t *Task) dest() []any {
	return []any{&t.TaskID, &t.RunID, &t.StoreID, &t.TerminalID, &t.Type, sqlite.Raw{Into: &t.Input},
		&t.State.Status, &t.State.Attempt, &t.State.Settled, &t.Attempts, &t.Floor, &t.Skipped, &t.HolderID, &t.Instance, &t.LastCode, &t.Reason,
		sqlite.Moment{Into: &t.NextAttemptAt}, sqlite.Moment{Into: &t.ClaimedAt}, sqlite.Moment{Into: &t.Deadline}, sqlite.Moment{Into: &t.QueueDeadline},
		sqlite.Moment{Into: &t.CreatedAt}, sqlite.Moment{Into: &t.SettledAt}}
}

func scanTask(row sqlite.Row) (Task, error) {
	var t Task
	err := row.Scan(t.dest()...)
	return t, err
}

// attemptColumns tolerate that an outer join found no attempt.
const attemptColumns = `coalesce(a.task_id, '') "", coalesce(a.attempt, 0) "", coalesce(a.store_id, '') "", coalesce(a.terminal_id, '') "",
	+a.granted_at "", +a.started_at "", +a.last_sign_at "", +a.ready_at "", +a.lease_until "", +a.received_at "", +a.terminal_from "", +a.terminal_to "",
	coalesce(a.duration_ms, 0) * 1000000 "", coalesce(a.answer, '') "", coalesce(a.executed, 0) "", +a.exit_code "",
	coalesce(a.output_tail, '') "", +a.failure "", coalesce(a.sha256, '') "", coalesce(a.bytes, 0) "", +a.columns "", coalesce(a.late, 0) "", coalesce(a.redacted, 0) ""`

// dest is where attemptColumns go.
func (a *Attempt) dest() []any {
	return []any{&a.TaskID, &a.Attempt, &a.StoreID, &a.TerminalID,
		sqlite.Moment{Into: &a.GrantedAt}, sqlite.Moment{Into: &a.StartedAt}, sqlite.Moment{Into: &a.LastSignAt}, sqlite.Moment{Into: &a.ReadyAt}, sqlite.Moment{Into: &a.LeaseUntil},
		sqlite.Moment{Into: &a.ReceivedAt}, sqlite.Moment{Into: &a.TerminalFrom}, sqlite.Moment{Into: &a.TerminalTo},
		&a.Duration, &a.Answer, &a.Executed, &a.ExitCode,
		&a.OutputTail, sqlite.Document{Content: &a.Failure}, &a.SHA256, &a.Bytes, sqlite.Document{Content: &a.Columns}, &a.Late, &a.Redacted}
}

func scanAttempt(row sqlite.Row) (Attempt, error) {
	var a Attempt
	err := row.Scan(a.dest()...)
	return a, err
}
