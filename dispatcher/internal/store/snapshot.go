package store

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Snapshot is a run as it stood at one moment, whatever is committed since. It
// is for one goroutine at a time. Close it soon: the log of the database
// cannot shrink while it is open.
type Snapshot struct {
	Run  Run
	ctx  context.Context
	view *sqlite.View
}

// CloseBarrier marks the run's barrier closed and returns the run as it stood
// at that commit: what came before it is in, nothing after it is. Closing
// again keeps the first mark and returns a fresh snapshot.
func (s *Store) CloseBarrier(ctx context.Context, runID string, now time.Time) (*Snapshot, error) {
	return s.snapshot(ctx, runID, func(view *sqlite.View) error {
		_, err := writePinned(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
			return tx.Exec(`UPDATE runs SET barrier_closed_at = ? WHERE run_id = ? AND barrier_closed_at = 0`, sqlite.Millis(now), runID)
		}, view.Pin)
		return err
	})
}

// Snapshot returns the run as it stands now.
func (s *Store) Snapshot(ctx context.Context, runID string) (*Snapshot, error) {
	return s.snapshot(ctx, runID, (*sqlite.View).Pin)
}

func (s *Store) snapshot(ctx context.Context, runID string, pin func(*sqlite.View) error) (*Snapshot, error) {
	view, err := s.db.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot take a snapshot of run %s: %w", runID, err)
	}
	snap := &Snapshot{ctx: ctx, view: view}
	if err = pin(view); err == nil {
		snap.Run, err = sqlite.One(ctx, view, scanRun, selectRun, runID)
	}
	var seen int64
	if err == nil {
		seen, err = lateCount(ctx, view, runID)
	}
	if err != nil {
		_ = view.Close() // the first error matters
		return nil, fmt.Errorf("cannot take a snapshot of run %s: %w", runID, err)
	}
	s.seen.Note(runID, seen)
	return snap, nil
}

func lateCount(ctx context.Context, q sqlite.Querier, runID string) (int64, error) {
	return sqlite.One(ctx, q, func(row sqlite.Row) (n int64, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT late_count FROM runs WHERE run_id = ?`, runID)
}

// Candidates yields every target with its task, ordered by store id and task
// id; a store with several tasks comes once for each.
func (s *Snapshot) Candidates() iter.Seq2[Candidate, error] {
	return sqlite.Stream(s.ctx, s.view, scanCandidate, selectCandidates, s.Run.RunID)
}

// Close lets the moment go. Calling it again is harmless.
func (s *Snapshot) Close() error { return s.view.Close() }

// The skew is of the terminal that holds the task, else of the one seen last.
const selectCandidates = `SELECT t.store_id, t.name, t.time_zone, t.labels, ` + taskColumns + `, ` + attemptColumns + `,
	CASE WHEN k.status <> 'FAILED' THEN 0 ELSE
		(SELECT count(DISTINCT f.code) = 1 FROM attempts f WHERE f.task_id = k.task_id AND f.ended_at <> 0) END,
	CASE WHEN k.attempt = 0 OR k.attempt = 1 AND k.status = 'SUCCEEDED' THEN NULL ELSE (SELECT json_group_array(json_object(
		'attempt', f.attempt, 'terminalId', f.terminal_id, 'granted', f.granted_at, 'started', f.started_at,
		'ended', CASE WHEN f.ended_at = 0 THEN f.received_at ELSE f.ended_at END, 'answer', f.answer, 'code', f.code,
		'message', substr(coalesce(f.failure ->> '$.message', ''), 1, 500), 'exitCode', f.exit_code, 'sha256', f.sha256, 'bytes', f.bytes))
		FROM attempts f WHERE f.task_id = k.task_id) END,
	coalesce((SELECT max(x.online) FROM terminals x WHERE x.store_id = t.store_id), 0),
	(SELECT max(x.last_seen_at) FROM terminals x WHERE x.store_id = t.store_id),
	(SELECT x.clock_skew_ms FROM terminals x WHERE x.store_id = t.store_id AND x.clock_skew_ms IS NOT NULL
		ORDER BY x.terminal_id = k.holder_id DESC, x.last_seen_at DESC LIMIT 1)
	FROM tasks k
	JOIN runs r ON r.run_id = k.run_id
	JOIN run_targets t ON t.run_id = k.run_id AND t.store_id = k.store_id
	LEFT JOIN attempts a ON a.task_id = k.task_id AND a.attempt = k.attempt
	WHERE k.run_id = ? ORDER BY k.store_id, k.task_id`

func scanCandidate(row sqlite.Row) (Candidate, error) {
	var c Candidate
	var a Attempt
	dest := []any{&c.Place.StoreID, &c.Place.Name, &c.Place.TimeZone, sqlite.Document{Content: &c.Place.Labels}}
	dest = append(append(dest, c.Task.dest()...), a.dest()...)
	var tries []tried
	err := row.Scan(append(dest, &c.SameCodes, sqlite.Document{Content: &tries}, &c.Online, sqlite.Moment{Into: &c.LastSeen}, &c.SkewMs)...)
	slices.SortFunc(tries, func(a, b tried) int { return a.Attempt - b.Attempt })
	for i := range tries {
		c.Tries = append(c.Tries, tries[i].try())
	}
	if a.Attempt > 0 {
		c.Attempt = &a
	}
	if c.Task.State.Status != task.Failed {
		c.SameCodes = false
	}
	return c, err
}

// tried is an attempt as selectCandidates has it, with times in milliseconds.
type tried struct {
	Try
	Granted int64 `json:"granted"`
	Started int64 `json:"started"`
	Ended   int64 `json:"ended"`
}

func (t tried) try() Try {
	for into, ms := range map[*protocol.Time]int64{&t.GrantedAt: t.Granted, &t.StartedAt: t.Started, &t.EndedAt: t.Ended} {
		if ms != 0 {
			*into = protocol.Time{Time: time.UnixMilli(ms).UTC()}
		}
	}
	return t.Try
}
