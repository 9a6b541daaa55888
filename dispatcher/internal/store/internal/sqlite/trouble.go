package sqlite

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"muster/dispatcher/internal/store/internal/custody"
)

// ErrNoSpace says that the medium takes no more: it is full, over a quota, or the
// file met a limit of the process. Nothing of the operation was stored.
var ErrNoSpace = errors.New("no room to store anything")

// noSpace marks what SQLite says when the medium takes no more.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) && !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err) // of a file beside the database
	}
	sqliteErr, is := errors.AsType[*driver.Error](err)
	if !is || errors.Is(err, ErrNoSpace) {
		return err
	}
	switch sqliteErr.Code() {
	// A full device is FULL; a quota or a limit of the file size is IOERR_WRITE;
	// the index of the log that cannot grow is IOERR_SHMSIZE.
	case codes.SQLITE_FULL, codes.SQLITE_IOERR_WRITE, codes.SQLITE_IOERR_SHMSIZE:
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// ErrBroken says that the operation itself broke: it panicked, or asked for what
// the schema forbids. Nothing of it was stored, and it would break again.
var ErrBroken = errors.New("operation broke")

// broken marks what SQLite says when it will never take the operation.
func broken(err error) error {
	if sqliteErr, is := errors.AsType[*driver.Error](err); is {
		switch sqliteErr.Code() & 0xff {
		case codes.SQLITE_CONSTRAINT, codes.SQLITE_MISMATCH, codes.SQLITE_TOOBIG:
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
	}
	return err
}

// outOfRoom reports whether opening may have failed for want of room: SQLite
// says only that it cannot open when a file beside the database cannot be made.
func outOfRoom(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.ENOSPC) || unwritable(err)
}

// failing reports whether the medium, not the operation, is to blame.
func failing(err error) bool {
	if errors.Is(err, ErrNoSpace) || errors.Is(err, custody.ErrGone) || errors.Is(err, custody.ErrCorrupt) {
		return true
	}
	if sqliteErr, is := errors.AsType[*driver.Error](err); is {
		switch sqliteErr.Code() & 0xff {
		case codes.SQLITE_IOERR, codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
			return true
		}
	}
	return false
}

// calmInterval is how often the writer looks whether there is room again. Whoever
// frees some sees the recovery within this time, whether or not anything is written.
const calmInterval = time.Second

// trouble is what the medium last refused, until it takes writes again.
type trouble struct {
	tell func(error) // may be nil; called by the writer alone

	mu    sync.Mutex
	now   error
	known bool // the teller was told of now
}

// note keeps the first error of a spell: what came later says no more, unless the
// database is gone or damaged, or there is no room at all where little was left.
func (t *trouble) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if (t.now == nil) != (err == nil) || worse(err, t.now, custody.ErrGone) || worse(err, t.now, custody.ErrCorrupt) && !errors.Is(t.now, custody.ErrGone) ||
		err != nil && worse(t.now, err, ErrNoReserve) {
		t.now, t.known = err, false
	}
}

func worse(err, before, than error) bool { return errors.Is(err, than) && !errors.Is(before, than) }

func (t *trouble) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// news returns what is to be told, once for each change.
func (t *trouble) news() (func(), bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known || t.tell == nil {
		return nil, false
	}
	t.known = true
	now := t.now
	return func() { t.tell(now) }, true
}

// Trouble returns what the medium last refused, or nil when it takes writes.
func (db *DB) Trouble() error { return db.writer.trouble.err() }
