package custody

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"muster/internal/files"
)

// holder is what the lock file says about the process that holds it.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Lock is an advisory lock that the operating system frees with the
// process, however that ends. The file stays; only the lock counts.
type Lock struct{ flock *flock.Flock }

// Acquire locks the database at a resolved path, or fails with ErrLocked.
func Acquire(path string) (*Lock, error) {
	path += lockSuffix
	l, held, err := tryLock(path)
	if err != nil {
		return nil, err
	}
	if !held {
		return nil, fmt.Errorf("%w: %s: stop that one first, or name another data folder", ErrLocked, describe(path))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // it only helps a human
	}
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = overwrite(path, append(text, '\n'))
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // nobody is kept out by what the file says
		return nil, errors.Join(fmt.Errorf("cannot write lock file %s: %w", path, err), l.Release())
	}
	return l, nil
}

func tryLock(path string) (l *Lock, held bool, err error) {
	fl := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	if held, err = fl.TryLock(); err != nil {
		return nil, false, fmt.Errorf("cannot lock %s: %w", path, files.Mended(err))
	}
	return &Lock{flock: fl}, held, nil
}

// overwrite writes in place: a rename would leave the lock on a nameless file, and
// a full disk has the room that the file has already.
func overwrite(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(text, 0)
	return errors.Join(err, file.Truncate(int64(len(text))), file.Close())
}

func describe(path string) string {
	var h holder
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		return "the holder did not say who it is (" + path + ")"
	}
	return fmt.Sprintf("process %d on %s holds it since %s (%s)", h.PID, h.Host, h.Since.Format(time.RFC3339), path)
}

// Release gives the lock back.
func (l *Lock) Release() error {
	if err := l.flock.Close(); err != nil {
		return fmt.Errorf("cannot give the lock back: %w", err)
	}
	return nil
}
