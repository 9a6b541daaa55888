package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"muster/edge-agent/internal/durable"
)

// ErrLocked says that another agent works in the folder.
var ErrLocked = errors.New("another agent holds the work folder")

// Lock keeps a work folder for one process.
type Lock struct{ lock *flock.Flock }

// Acquire makes folder when absent and locks it. It fails with ErrLocked, and
// says who holds it, when another process has it. The lock ends with the
// process, however that dies.
func Acquire(folder string, now time.Time) (*Lock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make work folder: %w", err)
	}
	// Who holds it stands in a second file: Windows lets nobody read a locked one.
	holder := filepath.Join(folder, "agent.holder")
	lock := flock.New(filepath.Join(folder, "agent.lock"))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("cannot lock work folder %s: %w", folder, err)
	}
	if !got {
		who, err := os.ReadFile(holder)
		if err != nil {
			who = []byte("unknown process")
		}
		return nil, fmt.Errorf("cannot use work folder %s: %w: %s", folder, ErrLocked, strings.TrimSpace(string(who)))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	who := fmt.Sprintf("pid %d on %s since %s\n", os.Getpid(), host, now.Format(time.RFC3339))
	if err := durable.WriteFile(holder, []byte(who)); err != nil && !durable.Refused(err) {
		// A disk that takes no writes lets the agent work on: only the name is missing.
		return nil, errors.Join(err, lock.Close())
	}
	return &Lock{lock: lock}, nil
}

// Release gives the folder back. It may be called twice.
func (l *Lock) Release() error { return l.lock.Close() }

// Held says which process has the work folder, "" when none has. It changes
// nothing; a folder that is not there is nobody's.
func Held(folder string) (string, error) {
	name := filepath.Join(folder, "agent.lock")
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	lock := flock.New(name)
	got, err := lock.TryLock()
	if err != nil {
		return "", fmt.Errorf("cannot look at the lock of work folder %s: %w", folder, err)
	}
	if got {
		return "", lock.Close()
	}
	who, err := os.ReadFile(filepath.Join(folder, "agent.holder"))
	if err != nil {
		who = []byte("unknown process")
	}
	return strings.TrimSpace(string(who)), nil
}
