package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// prepareFile refuses a file that is not ours, is damaged or is newer, and
// brings an older one up to date. sealed says that every byte is as it was.
func prepareFile(ctx context.Context, conn *sql.Conn, path string, sealed bool, o Options) error {
	steps, err := migrations(o.Migrations)
	if err != nil {
		return err
	}
	limit := o.CheckFor
	if limit == 0 {
		limit = usualCheck
	}
	if err := checkPages(ctx, conn, sealed, limit); err != nil {
		return err
	}
	var id, version, tables int64
	for query, into := range map[string]*int64{
		"PRAGMA application_id":                            &id,
		"PRAGMA user_version":                              &version,
		"SELECT count(*) FROM sqlite_schema WHERE rowid>0": &tables,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(into); err != nil {
			return err
		}
	}
	if tables > 0 && id != int64(o.ApplicationID) {
		return fmt.Errorf("cannot use %s: it is a database of another program (application id %d); if it was headquarters', it is damaged: dispatcher restore BACKUP --data %s",
			path, id, filepath.Dir(path))
	}
	if version > int64(len(steps)) {
		return fmt.Errorf("%w: %s has schema version %d, this program knows up to %d; install the newer program or restore an older backup",
			ErrNewerSchema, path, version, len(steps))
	}
	if version < 0 {
		return fmt.Errorf("%w: its header names schema version %d", ErrCorrupt, version)
	}
	for i := version; i < int64(len(steps)); i++ {
		if err := migrate(ctx, conn, path, steps[i], i+1, o.ApplicationID); err != nil {
			return fmt.Errorf("cannot migrate to schema version %d: %w", i+1, err)
		}
	}
	return breakSeal(path)
}

// usualCheck bounds the check at Open: headquarters must be back soon. Of 100,000
// tasks the pages take 0.2 s, and to compare every index with its table takes seven
// times as long.
const usualCheck = 5 * time.Second

// checkPages reads every page once and, unless the file is sealed, compares every
// index with its table: after a crash a key that changed shows in nothing else.
// What it could not do within the limit is left to a full check.
func checkPages(ctx context.Context, q Querier, sealed bool, limit time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, check := range []string{"PRAGMA quick_check(5)", "PRAGMA integrity_check(5)"} {
		found, err := List(bounded, q, func(row Row) (line string, err error) {
			err = row.Scan(&line)
			return line, err
		}, check)
		if bounded.Err() != nil && ctx.Err() == nil && len(found) == 0 {
			return nil // the time is over, and nothing wrong was found
		}
		if err := verdict(found, err); err != nil || sealed {
			return err
		}
	}
	return nil
}

// verdict reads the answer of a check.
func verdict(found []string, err error) error {
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(found, "; "))
	}
	return nil
}

// migrate runs one step and its version mark in one transaction. The seal is
// broken right before the commit: a database that could not be changed stays as
// it was closed.
func migrate(ctx context.Context, conn *sql.Conn, path, script string, version int64, id int32) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	marks := fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d;", version, id)
	for _, text := range []string{script, marks} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	mend, err := crackSeal(path)
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return errors.Join(err, mend())
	}
	return nil
}

// migrations returns the scripts in order: element 0 leads to version 1.
func migrations(files fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("cannot list migrations: %w", err)
	}
	var steps []string
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		if n, err := strconv.Atoi(number); err != nil || n != len(steps)+1 {
			return nil, fmt.Errorf("cannot use migration %s: number %04d is next", entry.Name(), len(steps)+1)
		}
		script, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("cannot read migration %s: %w", entry.Name(), err)
		}
		steps = append(steps, string(script))
	}
	return steps, nil
}
