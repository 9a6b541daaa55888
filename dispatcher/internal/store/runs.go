package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

// CreateRun stores the run, its frozen targets and all its tasks in one
// transaction, with an audit line, and tells observers RunCreated. A request
// id that the user used before creates nothing: Created says whether the
// content was the same. An empty RequestID is never a duplicate. Every place
// must have a task; Targets is the number of places.
func (s *Store) CreateRun(ctx context.Context, run Run, places []Place, tasks []NewTask, req Request, now time.Time) (Created, error) {
	run.ApprovedBy = ""
	order := newOrder{run: run, places: places, tasks: tasks, req: req}
	if err := order.prepare(now); err != nil {
		return Created{}, fmt.Errorf("cannot create run %s: %w", run.RunID, err)
	}
	over := s.foresee(&order)
	created, err := write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (Created, error) {
		first, err := requested(ctx, tx, req)
		if !errors.Is(err, ErrNotFound) {
			return first, err
		}
		return order.insert(ctx, tx, now, changes)
	})
	over(err == nil && !created.Duplicate && !created.Conflict)
	if err != nil {
		return Created{}, fmt.Errorf("cannot create run %s: %w", run.RunID, err)
	}
	return created, nil
}

// newOrder is everything that a run is created from.
type newOrder struct {
	run    Run
	places []Place
	tasks  []NewTask
	req    Request
	under  string // the approval's id, "" when none was needed
}

func (o *newOrder) prepare(now time.Time) error {
	o.run.Targets = len(o.places)
	if o.run.CreatedAt.IsZero() {
		o.run.CreatedAt = now
	}
	if o.run.OrderedAt.IsZero() {
		o.run.OrderedAt = o.run.CreatedAt
	}
	return coverage(o.places, o.tasks)
}

// foresee tells of a run as it will be stored.
func (s *Store) foresee(o *newOrder) (over func(created bool)) {
	run := o.run
	for _, at := range []*time.Time{&run.CreatedAt, &run.OrderedAt, &run.BarrierAt, &run.MakeupUntil} {
		*at = sqlite.Stored(*at)
	}
	run.Input = storedInput(run.Input)
	var all []func(bool)
	for _, f := range s.foreseers {
		all = append(all, f(run, o.tasks))
	}
	return func(created bool) {
		for _, over := range all {
			over(created)
		}
	}
}

// storedInput is how the database has a run's input: there is none without.
func storedInput(input json.RawMessage) json.RawMessage {
	if len(input) == 0 {
		return json.RawMessage("null")
	}
	return input
}

// Task is a task of the run as it is created.
func (r Run) Task(t NewTask) Task {
	if t.Input == nil {
		t.Input = r.Input
	}
	return Task{TaskID: t.TaskID, RunID: r.RunID, StoreID: t.StoreID, TerminalID: t.TerminalID, Type: r.Job, Input: t.Input,
		State: task.State{Status: task.Pending}, Attempts: max(r.Policy.Attempts, 1), Deadline: r.BarrierAt, QueueDeadline: r.MakeupUntil, CreatedAt: r.CreatedAt}
}

func (o *newOrder) insert(ctx context.Context, tx *sqlite.Tx, now time.Time, changes *[]Change) (Created, error) {
	if o.run.ParentRun != "" {
		if err := o.takeOver(ctx, tx, now, changes); err != nil {
			return Created{}, err
		}
	}
	if err := insertRun(tx, o.run, o.places, o.tasks, o.req, now); err != nil {
		return Created{}, err
	}
	err := audit.Append(ctx, tx, audit.Entry{At: now, Actor: o.run.RequestedBy, Action: "run_created", Subject: o.run.RunID, Detail: o.describe()})
	if err != nil {
		return Created{}, err
	}
	stored, err := sqlite.One(ctx, tx, scanRun, selectRun, o.run.RunID)
	*changes = append(*changes, Change{Kind: RunCreated, RunID: o.run.RunID, Run: &stored})
	return Created{Run: stored}, err
}

// describe is the order in words, for the audit.
func (o *newOrder) describe() string {
	text := fmt.Sprintf("job %s v%d, %s, %s", o.run.Job, o.run.JobVersion, audit.Many(len(o.places), "target"), audit.Many(len(o.tasks), "task"))
	if o.req.RequestID != "" {
		text += fmt.Sprintf(", request %s with sha256 %s", o.req.RequestID, o.req.ContentHash)
	}
	if o.run.ParentRun != "" {
		text += ", retry of run " + o.run.ParentRun
	}
	if o.under != "" {
		text += fmt.Sprintf(", approved by %s under %s", o.run.ApprovedBy, o.under)
	}
	return text + ", reason: " + o.run.Reason
}

func coverage(places []Place, tasks []NewTask) error {
	bare := make(map[string]struct{}, len(places))
	for _, p := range places {
		bare[p.StoreID] = struct{}{}
	}
	for _, t := range tasks {
		delete(bare, t.StoreID)
	}
	for id := range bare {
		return fmt.Errorf("store %s is a target without a task", id)
	}
	return nil
}

// requested returns what the request made before, or ErrNotFound.
func requested(ctx context.Context, tx *sqlite.Tx, req Request) (Created, error) {
	if req.RequestID == "" {
		return Created{}, ErrNotFound
	}
	stored, err := sqlite.One(ctx, tx, scanRequest, selectRequest, req.User, req.RequestID)
	if err != nil {
		return Created{}, err
	}
	run, err := sqlite.One(ctx, tx, scanRun, selectRun, stored.runID)
	if errors.Is(err, ErrNotFound) {
		return Created{}, fmt.Errorf("request %s names the lost run %s", req.RequestID, stored.runID)
	}
	same := stored.ContentHash == req.ContentHash
	return Created{Run: run, Duplicate: same, Conflict: !same}, err
}

func insertRun(tx *sqlite.Tx, run Run, places []Place, tasks []NewTask, req Request, now time.Time) error {
	_, err := tx.Exec(`INSERT INTO runs (run_id, job, job_version, requested_by, reason, input, policy, columns,
			targets, created_at, barrier_at, makeup_until, approved_by, parent_run, ordered_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		run.RunID, run.Job, run.JobVersion, run.RequestedBy, run.Reason, string(storedInput(run.Input)), sqlite.Document{Content: run.Policy},
		sqlite.Document{Content: run.Columns}, run.Targets, sqlite.Millis(run.CreatedAt), sqlite.Millis(run.BarrierAt), sqlite.Millis(run.MakeupUntil), run.ApprovedBy,
		run.ParentRun, sqlite.Millis(run.OrderedAt))
	if err != nil {
		return err
	}
	labels := sameLabels()
	err = tx.Insert(`INSERT INTO run_targets (run_id, store_id, name, time_zone, labels)`, sqlite.Placeholders(5), len(places),
		func(i int) []any {
			p := places[i]
			return []any{run.RunID, p.StoreID, p.Name, p.TimeZone, labels(p.Labels)}
		})
	if err != nil {
		return fmt.Errorf("cannot freeze %d targets: %w", len(places), err)
	}
	err = tx.Insert(`INSERT INTO tasks (task_id, run_id, store_id, terminal_id, attempts, created_at, input)`,
		sqlite.Placeholders(7), len(tasks), func(i int) []any {
			t := tasks[i]
			return []any{t.TaskID, run.RunID, t.StoreID, t.TerminalID, max(run.Policy.Attempts, 1), sqlite.Millis(run.CreatedAt), sqlite.Text(t.Input)}
		})
	if err != nil {
		return fmt.Errorf("cannot insert %d tasks: %w", len(tasks), err)
	}
	if req.RequestID != "" {
		_, err := tx.Exec(`INSERT INTO requests (user, request_id, content_hash, members, run_id, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
			req.User, req.RequestID, req.ContentHash, req.Members, run.RunID, sqlite.Millis(now))
		if err != nil {
			return fmt.Errorf("cannot store request %s: %w", req.RequestID, err)
		}
	}
	return nil
}

// sameLabels makes JSON text of labels, and does it once for places in a row that are
// labelled alike.
func sameLabels() func(map[string]string) any {
	var last map[string]string
	var text any
	return func(labels map[string]string) any {
		if text == nil || (last == nil) != (labels == nil) || !maps.Equal(last, labels) {
			last, text = labels, sqlite.Document{Content: labels}
			if doc, err := protocol.Encode(labels); err == nil {
				text = string(doc)
			}
		}
		return text
	}
}

// FindRequest returns what the user asked under the id and the run that it
// made, or ErrNotFound.
func (s *Store) FindRequest(ctx context.Context, user, requestID string) (Request, Run, error) {
	stored, err := sqlite.One(ctx, s.db.Readers(), scanRequest, selectRequest, user, requestID)
	if err != nil {
		return Request{}, Run{}, fmt.Errorf("cannot find request %s of %s: %w", requestID, user, err)
	}
	run, err := s.GetRun(ctx, stored.runID)
	return stored.Request, run, err
}

// GetRun returns the run, or ErrNotFound.
func (s *Store) GetRun(ctx context.Context, runID string) (Run, error) {
	run, err := sqlite.One(ctx, s.db.Readers(), scanRun, selectRun, runID)
	if err != nil {
		return Run{}, fmt.Errorf("cannot get run %s: %w", runID, err)
	}
	return run, nil
}

// ListOpenRuns returns the runs that are not closed, oldest first.
func (s *Store) ListOpenRuns(ctx context.Context) ([]Run, error) {
	runs, err := sqlite.List(ctx, s.db.Readers(), scanRun,
		`SELECT `+runColumns+` FROM runs WHERE closed_at = 0 ORDER BY created_at, run_id`)
	if err != nil {
		return nil, fmt.Errorf("cannot list open runs: %w", err)
	}
	return runs, nil
}

const (
	recently   = 7 * 24 * time.Hour
	mostRecent = 200
	// mostTargets bounds what it costs to summarise them all, to about a second.
	mostTargets = 100_000
)

// ListRecentlyClosedRuns returns, newest first, the runs that were closed last: 200
// at most, with 100,000 targets in all but for the newest, and none a week or more
// before that. It asks no clock, so that what was closed last is in it however long
// headquarters was away.
func (s *Store) ListRecentlyClosedRuns(ctx context.Context) ([]Run, error) {
	runs, err := sqlite.List(ctx, s.db.Readers(), scanRun,
		`SELECT `+runColumns+` FROM runs WHERE closed_at <> 0 AND closed_at > (SELECT max(closed_at) FROM runs) - ?
		ORDER BY closed_at DESC, run_id DESC LIMIT ?`, recently.Milliseconds(), mostRecent)
	if err != nil {
		return nil, fmt.Errorf("cannot list the runs that were closed last: %w", err)
	}
	targets := 0
	for i := range runs {
		if targets += runs[i].Targets; targets > mostTargets && i > 0 {
			return runs[:i], nil
		}
	}
	return runs, nil
}

const runColumns = `run_id, job, job_version, requested_by, reason, input, policy, columns, targets,
	created_at, barrier_at, makeup_until, barrier_closed_at, closed_at, revision, approved_by, parent_run, merged,
	CASE ordered_at WHEN 0 THEN created_at ELSE ordered_at END`

const selectRun = `SELECT ` + runColumns + ` FROM runs WHERE run_id = ?`

func scanRun(row sqlite.Row) (Run, error) {
	var r Run
	err := row.Scan(&r.RunID, &r.Job, &r.JobVersion, &r.RequestedBy, &r.Reason, sqlite.Raw{Into: &r.Input}, sqlite.Document{Content: &r.Policy},
		sqlite.Document{Content: &r.Columns}, &r.Targets, sqlite.Moment{Into: &r.CreatedAt}, sqlite.Moment{Into: &r.BarrierAt}, sqlite.Moment{Into: &r.MakeupUntil},
		sqlite.Moment{Into: &r.BarrierClosedAt}, sqlite.Moment{Into: &r.ClosedAt}, &r.Revision, &r.ApprovedBy,
		&r.ParentRun, &r.Merged, sqlite.Moment{Into: &r.OrderedAt})
	return r, err
}

type storedRequest struct {
	Request
	runID string
}

const selectRequest = `SELECT user, request_id, content_hash, members, run_id FROM requests WHERE user = ? AND request_id = ?`

func scanRequest(row sqlite.Row) (storedRequest, error) {
	var r storedRequest
	err := row.Scan(&r.User, &r.RequestID, &r.ContentHash, &r.Members, &r.runID)
	return r, err
}
