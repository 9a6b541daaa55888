package checker

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// Store is what a copy of the database holds. Times are epoch milliseconds on
// headquarters' clock, 0 for "not yet". TakenAt is when the copy was made, Epoch the
// number of the restore from which the database began, 0 if of none.
type Store struct {
	TakenAt   int64
	Epoch     int64
	Runs      []Run
	Targets   []Target
	Tasks     []Task
	Attempts  []Attempt
	Rejected  []RejectedResult
	Requests  []Request
	Revisions []Revision
	Outcomes  []Outcome
}

// Run is a row of runs.
type Run struct {
	RunID       string            `json:"run_id"`
	RequestedBy string            `json:"requested_by"`
	Targets     int               `json:"targets"`
	CreatedAt   int64             `json:"created_at"`
	BarrierAt   int64             `json:"barrier_at"`
	MakeupUntil int64             `json:"makeup_until"`
	ClosedAt    int64             `json:"barrier_closed_at"` // of the barrier
	EndedAt     int64             `json:"closed_at"`         // of the run
	Revision    int               `json:"revision"`
	LateCount   int               `json:"late_count"`
	ParentRun   string            `json:"parent_run"` // of a retry
	Columns     []protocol.Column `json:"columns"`
	Policy      RunPolicy         `json:"policy"`
}

// RunPolicy is what a run's policy says about late answers, and about budgets of
// its own; 0 is none.
type RunPolicy struct {
	Late       string  `json:"late"`
	MaxRunning int     `json:"maxRunning"`
	GrantRate  float64 `json:"grantRate"`
	GrantBurst int     `json:"grantBurst"`
}

// Target is a row of run_targets.
type Target struct {
	RunID   string `json:"run_id"`
	StoreID string `json:"store_id"`
}

// Task is a row of tasks. Skipped is how many numbers of attempts restores left
// out.
type Task struct {
	TaskID    string      `json:"task_id"`
	RunID     string      `json:"run_id"`
	StoreID   string      `json:"store_id"`
	Status    task.Status `json:"status"`
	Attempt   int         `json:"attempt"`
	Attempts  int         `json:"attempts"`
	Skipped   int         `json:"skipped"`
	CreatedAt int64       `json:"created_at"`
	SettledAt int64       `json:"settled_at"`
}

func (t Task) state() task.State {
	return task.State{Status: t.Status, Attempt: t.Attempt, Settled: t.SettledAt != 0}
}

// Attempt is a row of attempts.
type Attempt struct {
	TaskID     string          `json:"task_id"`
	Attempt    int             `json:"attempt"`
	StoreID    string          `json:"store_id"`
	TerminalID string          `json:"terminal_id"`
	GrantedAt  int64           `json:"granted_at"`
	StartedAt  int64           `json:"started_at"`
	LastSignAt int64           `json:"last_sign_at"`
	EndedAt    int64           `json:"ended_at"`
	ReceivedAt int64           `json:"received_at"`
	Answer     protocol.Answer `json:"answer"`
	Late       int             `json:"late"`
	Code       protocol.Code   `json:"code"`
	SHA256     string          `json:"sha256"`
	DurationMs int64           `json:"duration_ms"` // by the terminal
	Redacted   int             `json:"redacted"`
	Result     *string         `json:"result"`
}

// RejectedResult is a row of rejected_results.
type RejectedResult struct {
	TaskID     string `json:"task_id"`
	Attempt    int    `json:"attempt"`
	TerminalID string `json:"terminal_id"`
	SHA256     string `json:"sha256"`
}

// Request is a row of requests.
type Request struct {
	User      string `json:"user"`
	RequestID string `json:"request_id"`
	RunID     string `json:"run_id"`
}

// Revision is a row of revisions.
type Revision struct {
	RunID       string                  `json:"run_id"`
	Revision    int                     `json:"revision"`
	Why         protocol.RevisionWhy    `json:"why"`
	AsOf        int64                   `json:"as_of"`
	Seen        int                     `json:"seen"`
	Complete    int                     `json:"complete"`
	PublishedAt int64                   `json:"published_at"`
	Files       []protocol.ManifestFile `json:"files"`
}

// Outcome is a row of outcomes: a target as a revision judged it. Later
// revisions hold the rows that changed.
type Outcome struct {
	RunID    string       `json:"run_id"`
	StoreID  string       `json:"store_id"`
	Revision int          `json:"revision"`
	Outcome  task.Outcome `json:"outcome"`
	Reason   task.Reason  `json:"reason"`
	Row      string       `json:"row"`
}

// Query runs one SELECT on the copy of the database and returns its only
// column, text, row by row.
type Query func(statement string) ([]string, error)

// ReadStore reads everything that the checker looks at. takenAt is when the copy
// was made, epoch milliseconds.
func ReadStore(query Query, takenAt int64) (Store, error) {
	s := Store{TakenAt: takenAt}
	var epochs []int64
	for _, read := range []func(Query) error{
		table(&s.Runs, `SELECT json_object('run_id', run_id, 'requested_by', requested_by, 'targets', targets, 'created_at', created_at,
			'barrier_at', barrier_at, 'makeup_until', makeup_until, 'barrier_closed_at', barrier_closed_at, 'closed_at', closed_at, 'revision', revision, 'late_count', late_count, 'parent_run', parent_run,
			'columns', json(columns), 'policy', json(policy)) FROM runs ORDER BY created_at, run_id`),
		table(&s.Targets, `SELECT json_object('run_id', run_id, 'store_id', store_id) FROM run_targets ORDER BY run_id, store_id`),
		table(&s.Tasks, `SELECT json_object('task_id', task_id, 'run_id', run_id, 'store_id', store_id, 'status', status, 'attempt', attempt,
			'attempts', attempts, 'skipped', skipped, 'created_at', created_at, 'settled_at', settled_at) FROM tasks ORDER BY task_id`),
		table(&s.Attempts, `SELECT json_object('task_id', task_id, 'attempt', attempt, 'store_id', store_id, 'terminal_id', terminal_id,
			'granted_at', granted_at, 'started_at', started_at, 'last_sign_at', last_sign_at, 'ended_at', ended_at, 'received_at', received_at,
			'answer', answer, 'late', late, 'code', code, 'sha256', sha256, 'duration_ms', duration_ms, 'redacted', redacted, 'result', result) FROM attempts ORDER BY task_id, attempt`),
		table(&s.Rejected, `SELECT json_object('task_id', task_id, 'attempt', attempt, 'terminal_id', terminal_id, 'sha256', sha256)
			FROM rejected_results ORDER BY id`),
		table(&s.Requests, `SELECT json_object('user', user, 'request_id', request_id, 'run_id', run_id) FROM requests ORDER BY user, request_id`),
		table(&s.Revisions, `SELECT json_object('run_id', run_id, 'revision', revision, 'why', why, 'as_of', as_of, 'seen', seen,
			'complete', complete, 'published_at', published_at, 'files', json(files)) FROM revisions ORDER BY run_id, revision`),
		table(&s.Outcomes, `SELECT json_object('run_id', run_id, 'store_id', store_id, 'revision', revision, 'outcome', outcome,
			'reason', reason, 'row', row) FROM outcomes ORDER BY run_id, revision, store_id`),
		table(&epochs, `SELECT value FROM meta WHERE key = 'epoch'`),
	} {
		if err := read(query); err != nil {
			return Store{}, err
		}
	}
	for _, n := range epochs {
		s.Epoch = n
	}
	return s, nil
}

func table[R any](into *[]R, statement string) func(Query) error {
	return func(query Query) error {
		rows, err := query(statement)
		if err != nil {
			return fmt.Errorf("cannot read the copy of the database: %w", err)
		}
		for _, text := range rows {
			var row R
			if err := json.Unmarshal([]byte(text), &row); err != nil {
				return fmt.Errorf("cannot read a row of the copy of the database: %w", err)
			}
			*into = append(*into, row)
		}
		return nil
	}
}

// ReadReports reads every file of a report folder, unless its name begins with a
// dot: that one is not published yet.
func ReadReports(folder fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		files[name], err = fs.ReadFile(folder, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the report folder: %w", err)
	}
	return files, nil
}
