package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muster/dispatcher/internal/progress"
	"muster/dispatcher/internal/store/internal/custody"
)

// readingPages is what a check of a whole file is called; SQLite does not tell how far
// it is.
const readingPages = "reads every page"

// Copy writes what is committed in the database at from, at one moment, to a new
// file of mode 0600 at into, and syncs it. It reads beside whoever holds the
// database, and changes nothing there. into must not exist.
func Copy(ctx context.Context, from, into string, applicationID int32) (err error) {
	source, err := found(from)
	if err == nil {
		err = damaged(custody.CheckIdle(source), source)
	}
	if err != nil {
		return fmt.Errorf("cannot copy database %s: %w", from, err)
	}
	// SQLite fills an empty file and keeps its mode.
	file, err := os.OpenFile(into, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("cannot copy database %s: %w", from, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(into)
			_ = os.Remove(into + "-journal")
			err = fmt.Errorf("cannot copy database %s to %s: %w", from, into, named(noSpace(err)))
		}
	}()
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := vacuum(ctx, source, into, applicationID); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return custody.SyncFolder(filepath.Dir(into))
}

func vacuum(ctx context.Context, source, into string, applicationID int32) (err error) {
	query := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)"}}
	db, err := connect(source, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var id int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if id != int64(applicationID) {
		return fmt.Errorf("it is a database of another program (application id %d)", id)
	}
	uri, err := address(into, nil)
	if err != nil {
		return err
	}
	defer followCopy(ctx, db, into)()
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", uri)
	return err
}

// followCopy tells how much of the copy is written, for whoever listens, until what it
// returns is called.
func followCopy(ctx context.Context, db *sql.DB, into string) (stop func()) {
	if progress.Of(ctx) == nil {
		return func() {}
	}
	var bytes int64
	for _, query := range []string{"PRAGMA page_count", "PRAGMA page_size"} {
		n := int64(0)
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			return func() {} // the copy says why
		}
		bytes = max(bytes, 1) * n
	}
	done := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			if info, err := os.Stat(into); err == nil {
				progress.Say(ctx, "copies the database", info.Size(), bytes)
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() { close(done); following.Wait() }
}

// Check reads every page of the file and compares every index with its table.
func Check(ctx context.Context, q Querier) error {
	progress.Say(ctx, readingPages, 0, 0)
	found, err := List(ctx, q, func(row Row) (line string, err error) {
		err = row.Scan(&line)
		return line, err
	}, "PRAGMA integrity_check(5)")
	return verdict(found, err)
}

// Version is the schema version of the file.
func Version(ctx context.Context, q Querier) (int, error) {
	return One(ctx, q, func(row Row) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	}, "PRAGMA user_version")
}
