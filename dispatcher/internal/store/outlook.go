package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

const (
	// silentReports is in how many reports of a job, one after the other, a store must
	// be missing to be called silent.
	silentReports = 3
	// sampled bounds the executions that are looked at for the usual time.
	sampled = 1000
)

// Outlook is what a run of a job would meet now.
type Outlook struct {
	Online  map[string]bool      // stores with a terminal that is connected
	Silent  map[string]time.Time // missing in the job's last three reports; when each was last seen, zero if never
	Typical time.Duration        // the median of the executions in the last report; 0 if there were none
}

// Outlook looks at the register and at the job's last reports. Retries do not count.
func (s *Store) Outlook(ctx context.Context, job string) (Outlook, error) {
	o := Outlook{Online: map[string]bool{}, Silent: map[string]time.Time{}}
	text := func(row sqlite.Row) (id string, err error) { return id, row.Scan(&id) }
	online, err := sqlite.List(ctx, s.db.Readers(), text, `SELECT DISTINCT store_id FROM terminals WHERE online = 1`)
	if err != nil {
		return o, fmt.Errorf("cannot list who is online: %w", err)
	}
	for _, id := range online {
		o.Online[id] = true
	}
	runs, err := sqlite.List(ctx, s.db.Readers(), text, `SELECT run_id FROM runs WHERE job = ? AND revision > 0 AND parent_run = ''
		ORDER BY created_at DESC, run_id DESC LIMIT ?`, job, silentReports)
	if err != nil {
		return o, fmt.Errorf("cannot list the last reports of job %s: %w", job, err)
	}
	if len(runs) == silentReports {
		if err := s.silent(ctx, runs, o.Silent); err != nil {
			return o, err
		}
	}
	if len(runs) > 0 {
		o.Typical, err = s.typical(ctx, runs[0])
	}
	return o, err
}

// silent adds the stores that are missing in the newest revision of every run.
func (s *Store) silent(ctx context.Context, runs []string, into map[string]time.Time) error {
	type store struct {
		id   string
		seen time.Time
	}
	args := make([]any, 0, len(runs)+1)
	for _, id := range runs {
		args = append(args, id)
	}
	list, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (one store, err error) {
		return one, row.Scan(&one.id, sqlite.Moment{Into: &one.seen})
	}, `SELECT o.store_id, (SELECT max(x.last_seen_at) FROM terminals x WHERE x.store_id = o.store_id)
		FROM outcomes o JOIN runs r ON r.run_id = o.run_id
		WHERE o.run_id IN (?, ?, ?) AND o.outcome IN ('timed_out', 'offline') AND o.revision <= r.revision
			AND NOT EXISTS (SELECT 1 FROM outcomes n WHERE n.run_id = o.run_id AND n.store_id = o.store_id
				AND n.revision > o.revision AND n.revision <= r.revision)
		GROUP BY o.store_id HAVING count(*) = ?`, append(args, len(runs))...)
	if err != nil {
		return fmt.Errorf("cannot list who is silent: %w", err)
	}
	for _, one := range list {
		into[one.id] = one.seen
	}
	return nil
}

func (s *Store) typical(ctx context.Context, runID string) (time.Duration, error) {
	took, err := sqlite.One(ctx, s.db.Readers(), func(row sqlite.Row) (ms int64, err error) {
		return ms, row.Scan(&ms)
	}, `WITH some AS (SELECT a.duration_ms AS ms FROM tasks k JOIN attempts a ON a.task_id = k.task_id AND a.attempt = k.attempt
			WHERE k.run_id = ? AND k.status = 'SUCCEEDED' LIMIT ?)
		SELECT ms FROM some ORDER BY ms LIMIT 1 OFFSET (SELECT count(*) / 2 FROM some)`, runID, sampled)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("cannot tell how long run %s took: %w", runID, err)
	}
	return time.Duration(took) * time.Millisecond, nil
}
