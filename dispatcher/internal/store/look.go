package store

import (
	"context"
	"fmt"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/task"
)

// PlaceState is a store of the register, or one that was, with its terminals.
type PlaceState struct {
	Place
	Retired   bool // it left the register
	Terminals []Terminal
}

// ReadRuns returns the newest runs first, at most a number of them, of one job unless
// that is "", and with openOnly those that are not closed. It opens the file like
// VerifyAudit.
func ReadRuns(ctx context.Context, databasePath, job string, openOnly bool, most int) (runs []Run, err error) {
	err = lookAtAll(ctx, databasePath, func(q sqlite.Querier) error {
		runs, err = sqlite.List(ctx, q, scanRun, `SELECT `+runColumns+` FROM runs
			WHERE (? = '' OR job = ?) AND (? = 0 OR closed_at = 0) ORDER BY created_at DESC, run_id DESC LIMIT ?`, job, job, openOnly, most)
		return err
	})
	return runs, err
}

// ReadTasks returns the tasks of a run by store, of one status unless that is "". It
// fails with ErrNotFound when there is no such run, and opens the file like
// VerifyAudit.
func ReadTasks(ctx context.Context, databasePath, runID string, status task.Status) (tasks []Task, err error) {
	err = lookAtAll(ctx, databasePath, func(q sqlite.Querier) error {
		runs, err := sqlite.List(ctx, q, scanRun, selectRun, runID)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return fmt.Errorf("run %s: %w", runID, ErrNotFound)
		}
		tasks, err = sqlite.List(ctx, q, scanTask, `SELECT `+taskColumns+taskTables+`
			WHERE k.run_id = ? AND (? = '' OR k.status = ?) ORDER BY k.store_id, k.task_id`, runID, status, status)
		return err
	})
	return tasks, err
}

// ReadStores returns the stores by id, with retired also those that left the
// register. It opens the file like VerifyAudit.
func ReadStores(ctx context.Context, databasePath string, retired bool) (stores []PlaceState, err error) {
	err = lookAtAll(ctx, databasePath, func(q sqlite.Querier) error {
		at := map[string]int{}
		stores, err = sqlite.List(ctx, q, func(row sqlite.Row) (PlaceState, error) {
			var s PlaceState
			err := row.Scan(&s.StoreID, &s.Name, &s.TimeZone, sqlite.Document{Content: &s.Labels}, &s.Retired)
			return s, err
		}, `SELECT store_id, name, time_zone, labels, active = 0 FROM places WHERE active = 1 OR ? ORDER BY store_id`, retired)
		for i := range stores {
			at[stores[i].StoreID] = i
		}
		if err != nil {
			return err
		}
		terminals, err := sqlite.List(ctx, q, func(row sqlite.Row) (Terminal, error) {
			var t Terminal
			err := row.Scan(&t.StoreID, &t.TerminalID, &t.Online, sqlite.Moment{Into: &t.Since}, sqlite.Moment{Into: &t.LastSeenAt})
			return t, err
		}, `SELECT store_id, terminal_id, online, since, last_seen_at FROM terminals ORDER BY store_id, terminal_id`)
		for _, t := range terminals {
			if i, there := at[t.StoreID]; there {
				stores[i].Terminals = append(stores[i].Terminals, t)
			}
		}
		return err
	})
	return stores, err
}

// CountOpenTasks counts the tasks that are not settled, by status.
func (s *Store) CountOpenTasks(ctx context.Context) (map[task.Status]int, error) {
	counts := map[task.Status]int{}
	_, err := sqlite.List(ctx, s.db.Readers(), func(row sqlite.Row) (status task.Status, err error) {
		var n int
		err = row.Scan(&status, &n)
		counts[status] = n
		return status, err
	}, `SELECT status, count(*) FROM tasks WHERE settled_at = 0 GROUP BY status`)
	if err != nil {
		return nil, fmt.Errorf("cannot count open tasks: %w", err)
	}
	return counts, nil
}

// lookAtAll reads a database of this program's own schema version.
func lookAtAll(ctx context.Context, databasePath string, read func(sqlite.Querier) error) error {
	return sqlite.Look(ctx, databasePath, applicationID, int64(schemaVersion()), read)
}

// SchemaVersion is that of a database file, which is opened like VerifyAudit.
func SchemaVersion(ctx context.Context, databasePath string) (version int64, err error) {
	err = sqlite.Look(ctx, databasePath, applicationID, 1, func(q sqlite.Querier) error {
		known, err := sqlite.Version(ctx, q)
		version = int64(known)
		return err
	})
	return version, err
}
