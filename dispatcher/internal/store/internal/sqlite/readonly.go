package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"muster/dispatcher/internal/store/internal/custody"
)

// Look opens the file for reading only, beside whoever holds it or a copy that
// nobody holds, and calls read at one moment. It takes no lock of ours, changes
// no row, and refuses a file of another program, or one whose schema version is
// below atLeast.
func Look(ctx context.Context, path string, applicationID int32, atLeast int64, read func(Querier) error) error {
	resolved, err := found(path)
	if err == nil {
		err = look(ctx, resolved, url.Values{"mode": {"ro"}}, applicationID, atLeast, read)
	}
	if unwritable(err) && custody.Settled(resolved) {
		// On a medium that nobody can write, SQLite cannot make the files that
		// readers share; nobody can change the file there either.
		err = look(ctx, resolved, url.Values{"mode": {"ro"}, "immutable": {"1"}}, applicationID, atLeast, read)
	}
	if err != nil {
		return fmt.Errorf("cannot read database %s: %w", path, named(err))
	}
	return nil
}

// found is the one name of a database that must be there: SQLite's own word says only
// that it cannot.
func found(path string) (string, error) {
	resolved, err := custody.Resolve(path)
	if err == nil {
		_, err = os.Stat(resolved)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("it is not there, %w; name the data folder of a headquarters that has been started", err)
	}
	return resolved, err
}

// unwritable reports whether SQLite could not make the files beside the
// database.
func unwritable(err error) bool {
	var sqliteErr *driver.Error
	if !errors.As(err, &sqliteErr) {
		return false
	}
	code := sqliteErr.Code() & 0xff
	return code == codes.SQLITE_CANTOPEN || code == codes.SQLITE_READONLY
}

func look(ctx context.Context, path string, query url.Values, applicationID int32, atLeast int64, read func(Querier) error) (err error) {
	query["_pragma"] = []string{"busy_timeout(5000)", "query_only(1)"}
	db, err := connect(path, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var id, version int64
	for text, into := range map[string]*int64{"PRAGMA application_id": &id, "PRAGMA user_version": &version} {
		if err := tx.QueryRowContext(ctx, text).Scan(into); err != nil {
			return err
		}
	}
	if id != int64(applicationID) {
		return fmt.Errorf("it is a database of another program (application id %d)", id)
	}
	if version < atLeast {
		return fmt.Errorf("it has schema version %d, and version %d is needed; start the dispatcher once to bring it up to date", version, atLeast)
	}
	return read(tx)
}
