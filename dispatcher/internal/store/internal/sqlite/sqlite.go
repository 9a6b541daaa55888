// Package sqlite opens one SQLite file the way the store needs it: held by one
// process, checked, migrated, with one writer that commits in groups and pools
// of readers that cannot write.
//
// It knows no table and no query of the store, and it never asks the time on a
// caller's behalf.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"muster/dispatcher/internal/store/internal/custody"
)

// Errors that callers test for.
var (
	// ErrNewerSchema: the database was written by a newer program.
	ErrNewerSchema = errors.New("database schema is newer than this program")
	// ErrRestoring: a restore was cut off; the text says what to do.
	ErrRestoring = errors.New("a restore of the database was cut off")
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("store is closed")
)

const (
	defaultReaders = 4
	// maxStreams bounds the connections that long reads hold: pinned snapshots
	// and iterators. They are apart from the readers so that a loop over a
	// stream may read on without waiting for itself.
	maxStreams  = 16
	idleStreams = 2 // kept open between uses

	// RestoringSuffix names the copy that takes the database's place. As long as
	// it is there nobody may open the database.
	RestoringSuffix = ".restoring"
)

// Options says what to open. Migrations holds NNNN_name.sql files in its root,
// numbered from 0001 without a gap. Readers below 1 means 4.
//
// Early has Open return before all pages are checked: Sound tells what that found.
//
// BallastBytes is how much room is held for a full disk, below 1: none. Trouble,
// if any, is told when the medium refuses writes and, with nil, when it takes
// them again; Lost, if any, of what was owed and cannot be done although there is
// room. Both are called like Committed.
type Options struct {
	Path          string
	Readers       int
	Migrations    fs.FS
	ApplicationID int32
	Early         bool
	BallastBytes  int64
	CheckFor      time.Duration // bounds the check of all pages, 0: 5 s
	Trouble       func(error)
	Lost          func(name string, err error)
	Timed         func(took time.Duration) // of each commit, from the writer: it must not wait
}

// DB is an open database. All methods are safe for concurrent use.
type DB struct {
	path     string
	lock     *custody.Lock
	guard    *custody.Guard
	writing  *sql.DB
	writer   *writer
	readers  *Pool
	streams  *Pool
	checking *checking
	closing  sync.Once
	closed   error
}

// Open locks, opens, checks and migrates the database, and starts the writer.
// It fails with ErrLocked, ErrCorrupt, ErrNewerSchema or ErrNoSpace.
func Open(ctx context.Context, o Options) (*DB, error) {
	path, err := custody.Resolve(o.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot open database %s: %w", o.Path, err)
	}
	db, err := openLocked(ctx, path, o)
	if outOfRoom(err) && (ballast{path + custody.BallastSuffix, o.BallastBytes}).release() {
		db, err = openLocked(ctx, path, o)
	}
	if errors.Is(err, ErrNoSpace) {
		err = fmt.Errorf("%w; it is as it was: make room on the disk of %s, %s for all of it, and start again", err, filepath.Dir(path), roomFor(path))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open database %s: %w", path, err)
	}
	return db, nil
}

// roomFor is how much a change of the whole database may take.
func roomFor(path string) string {
	size := int64(0)
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	return fmt.Sprintf("%d MiB", size>>20+1)
}

func openLocked(ctx context.Context, path string, o Options) (*DB, error) {
	lock, err := custody.Acquire(path)
	if err != nil {
		return nil, noSpace(err)
	}
	db := &DB{lock: lock, path: path}
	if _, err := os.Lstat(path + RestoringSuffix); err == nil {
		return nil, errors.Join(fmt.Errorf("%w and %s may be incomplete: run dispatcher restore again",
			ErrRestoring, filepath.Base(path)), lock.Release())
	}
	if err := db.open(ctx, path, o); err != nil {
		_ = db.Close() // the reason for closing matters more
		return nil, damaged(noSpace(err), path)
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, path string, o Options) error {
	var sealed bool
	var err error
	if db.guard, sealed, err = custody.Hold(path); err != nil {
		return err
	}
	db.writing, err = connect(path, url.Values{
		"mode":    {"rw"}, // the file is there
		"_txlock": {"immediate"},
		"_pragma": {
			"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
			"wal_autocheckpoint(4000)",
			// What a statement may have to undo is kept in memory, a page for each
			// that it changes: otherwise it goes to a file in the system's folder for
			// temporary files, on a disk that may be full.
			"temp_store(MEMORY)",
			// A huge transaction may grow the log once; this gives back what is over twice
			// 4000 pages: each start reads all of it.
			fmt.Sprintf("journal_size_limit(%d)", custody.MaxIdleLog),
		},
	})
	if err != nil {
		return err
	}
	db.writing.SetMaxOpenConns(1)
	conn, err := db.writing.Conn(ctx)
	if err != nil {
		return err
	}
	checked, err := prepareFile(ctx, conn, path, sealed, o)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	readers := o.Readers
	if readers < 1 {
		readers = defaultReaders
	}
	if db.readers, err = openPool(path, readers, readers); err == nil {
		db.readers.whole = true
		db.streams, err = openPool(path, maxStreams, idleStreams)
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	held := ballast{path + custody.BallastSuffix, o.BallastBytes}
	db.checking = startChecking(path, sealed, checked, o.CheckFor)
	db.writer = startWriter(conn, path, held, db.guard, o)
	db.readers.saw, db.streams.saw = db.writer.saw, db.writer.saw
	return nil
}

// Readers is the pool for short reads.
func (db *DB) Readers() *Pool { return db.readers }

// Streams is the pool for reads that last as long as a caller's loop.
func (db *DB) Streams() *Pool { return db.streams }

// Close lets the writer finish what it holds, closes every connection and
// gives the lock back. Later calls return what the first did.
func (db *DB) Close() error {
	db.closing.Do(func() {
		var errs []error
		sound := db.checking != nil && db.checking.stop()
		if db.writer != nil {
			errs = append(errs, db.writer.stop())
		}
		for _, p := range []*Pool{db.readers, db.streams} {
			if p != nil {
				p.closed.Store(true)
				errs = append(errs, p.db.Close())
			}
		}
		if db.writing != nil {
			errs = append(errs, db.writing.Close())
		}
		if sound && db.guard.LookAtFile() == nil { // the log was taken in
			custody.Seal(db.path)
		}
		if db.guard != nil {
			errs = append(errs, db.guard.Close())
		}
		db.closed = errors.Join(append(errs, db.lock.Release())...)
	})
	return db.closed
}

// Damaged adds the way out to an error that says that the file is broken.
func (db *DB) Damaged(err error) error { return damaged(err, db.path) }

// damaged adds to what SQLite says about a broken file how to get out of it. That
// it makes no sense of what Open asks means that the header does not say what the
// file is, or which tables it has.
func damaged(err error, path string) error {
	err = named(err)
	var sqliteErr *driver.Error
	if !errors.Is(err, custody.ErrCorrupt) && errors.As(err, &sqliteErr) && sqliteErr.Code() == codes.SQLITE_ERROR {
		err = fmt.Errorf("%w: it is not what its header says: %w", custody.ErrCorrupt, err)
	}
	if !errors.Is(err, custody.ErrCorrupt) {
		return err
	}
	name := filepath.Base(path)
	return fmt.Errorf("%s: %w; to restore: stop the dispatcher and run: dispatcher restore BACKUP --data %s (it keeps %s beside)",
		name, err, filepath.Dir(path), name)
}

// named gives what SQLite says about a broken file its name.
func named(err error) error {
	var sqliteErr *driver.Error
	if !errors.Is(err, custody.ErrCorrupt) && errors.As(err, &sqliteErr) {
		switch sqliteErr.Code() & 0xff {
		case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
			return fmt.Errorf("%w: %w", custody.ErrCorrupt, err)
		}
	}
	return err
}
