// Package custody says whose a database file is, and whether it is still the one that
// was left there: it is held by one process, looked after while it is open, and known
// again after an orderly end and after a crash. It reads the file and those beside it as
// bytes; nothing here speaks SQL.
package custody

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Errors that callers test for.
var (
	// ErrLocked: another process holds the database; the text says which.
	ErrLocked = errors.New("database is held by another process")
	// ErrCorrupt: the file is not what was written.
	ErrCorrupt = errors.New("database is damaged")
	// ErrGone: the files of the open database are not in their place any more. What is
	// written goes into files that nobody will find again.
	ErrGone = errors.New("the database was taken away while it was open")
)

// The files beside the database.
const (
	lockSuffix = ".lock"
	// BallastSuffix names the file that holds room on the disk.
	BallastSuffix = ".ballast"
)

// checkLife tells a new database from one that somebody removed or emptied: the
// files of an earlier life are still there. A database has its first page before any
// of them is made.
func checkLife(path string) error {
	what := "is not there"
	if info, err := os.Stat(path); err == nil {
		if info.Size() > 0 {
			return nil
		}
		what = "is empty"
	}
	for _, suffix := range []string{"-wal", "-shm", sealSuffix, BallastSuffix, paceSuffix} {
		if exists(path + suffix) {
			return fmt.Errorf("%w: it %s, and %s of an earlier life is; to begin with nothing instead: move the folder away",
				ErrCorrupt, what, filepath.Base(path)+suffix)
		}
	}
	return nil
}

// CheckIdle checks the log that a killed headquarters left: SQLite would drop what
// cannot be read of it, and the copy would miss it. Whoever holds the database
// checked it when he opened it. A file at rest, as a backup is, needs no lock, which
// would leave a file beside it.
func CheckIdle(path string) error {
	if !exists(path+"-wal") && !exists(path+"-shm") && !exists(path+paceSuffix) {
		return nil
	}
	lock, held, err := tryLock(path + lockSuffix)
	if err != nil || !held {
		return err
	}
	return errors.Join(checkLog(path), lock.Release())
}

// Take holds the database at a resolved path as an open one does, or fails with
// ErrLocked.
func Take(path string) (release func() error, err error) {
	lock, err := Acquire(path)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return lock.Release, nil //nolint:nilerr // nobody holds what cannot be opened
	}
	if err = holdFile(file); err != nil {
		return nil, errors.Join(err, file.Close(), lock.Release())
	}
	return func() error { return errors.Join(releaseFile(file), lock.Release()) }, nil
}

// Settled reports whether there is no log beside the file that holds more than
// it.
func Settled(path string) bool {
	info, err := os.Stat(path + "-wal")
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
