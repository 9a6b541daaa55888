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

	"muster/dispatcher/internal/progress"
	"muster/dispatcher/internal/store/internal/custody"
)

// prepareFile refuses a file that is not ours, is damaged or is newer, and
// brings an older one up to date. sealed says that every byte is as it was. checked
// says that all pages were looked at: with Early only before a change of them all.
func prepareFile(ctx context.Context, conn *sql.Conn, path string, sealed bool, o Options) (checked bool, err error) {
	steps, err := migrations(o.Migrations)
	if err != nil {
		return false, err
	}
	version, err := identify(ctx, conn, path, int64(len(steps)), o.ApplicationID)
	if err != nil {
		return false, err
	}
	checked = !o.Early || version < int64(len(steps))
	if checked {
		if err := checkPages(ctx, conn, sealed, o.CheckFor); err != nil {
			return false, err
		}
	}
	for i := version; i < int64(len(steps)); i++ {
		progress.Say(ctx, fmt.Sprintf("brings the schema to version %d", i+1), i-version, int64(len(steps))-version)
		if err := migrate(ctx, conn, path, steps[i], i+1, o.ApplicationID); err != nil {
			return false, fmt.Errorf("cannot migrate to schema version %d: %w", i+1, err)
		}
	}
	return checked, custody.BreakSeal(path)
}

// identify returns the schema version of a file that is ours and not newer than
// what this program knows.
func identify(ctx context.Context, conn *sql.Conn, path string, known int64, applicationID int32) (int64, error) {
	var id, version, tables int64
	for query, into := range map[string]*int64{
		"PRAGMA application_id":                            &id,
		"PRAGMA user_version":                              &version,
		"SELECT count(*) FROM sqlite_schema WHERE rowid>0": &tables,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(into); err != nil {
			return 0, err
		}
	}
	if tables > 0 && id != int64(applicationID) {
		return 0, fmt.Errorf("cannot use %s: it is a database of another program (application id %d); if it was headquarters', it is damaged: dispatcher restore BACKUP --data %s",
			path, id, filepath.Dir(path))
	}
	if version > known {
		return 0, fmt.Errorf("%w: %s has schema version %d, this program knows up to %d; install the newer program or restore an older backup",
			ErrNewerSchema, path, version, known)
	}
	if version < 0 {
		return 0, fmt.Errorf("%w: its header names schema version %d", custody.ErrCorrupt, version)
	}
	return version, nil
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
	mend, err := custody.CrackSeal(path)
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
