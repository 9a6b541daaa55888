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
	"muster/internal/files"
)

// ErrLocked says that another agent works in the folder.
var ErrLocked = errors.New("another agent holds the work folder")

// ErrAway says that the work folder is not at its place.
var ErrAway = errors.New("the work folder is not at its place")

// Lock keeps a work folder for one process. One goroutine uses it.
type Lock struct {
	folder string
	lock   *flock.Flock
	dir    *os.File // the folder itself, wherever it is moved
	who    string   // what its holder file says
}

// acquireTries bounds how often a folder is made and locked again that others empty
// or remove meanwhile: who cleans up is done by then.
const acquireTries = 5

// Acquire makes folder when absent and locks it, again when it is emptied or removed
// meanwhile. It fails with ErrLocked, and says who holds it, when another process has
// it. The lock ends with the process, however that dies.
func Acquire(folder string, now time.Time) (*Lock, error) {
	for range acquireTries - 1 {
		if l, err := acquire(folder, now); !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
	}
	l, err := acquire(folder, now)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("cannot use work folder %s: it is emptied again and again: stop what does that, or give the agent a work_folder of its own: %w", folder, err)
	}
	return l, err
}

func acquire(folder string, now time.Time) (*Lock, error) {
	if err := files.MakeFolder(folder, 0o700); err != nil {
		return nil, fmt.Errorf("cannot use work folder %s: %w", folder, err)
	}
	lock := flock.New(filepath.Join(folder, "agent.lock"))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("cannot lock work folder %s: %w", folder, files.Mended(err))
	}
	if !got {
		return nil, fmt.Errorf("cannot use work folder %s: %w: %s: stop that one, or give this one a work_folder of its own", folder, ErrLocked, holder(folder))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	who := fmt.Sprintf("pid %d on %s since %s\n", os.Getpid(), host, now.Format(time.RFC3339))
	if err := durable.WriteFile(filepath.Join(folder, holderFile), []byte(who)); err != nil && !durable.Refused(err) {
		// A disk that takes no writes lets the agent work on: only the name is missing.
		return nil, errors.Join(err, lock.Close())
	}
	dir, err := os.Open(folder)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot hold work folder: %w", err), lock.Close())
	}
	return &Lock{folder: folder, lock: lock, dir: dir, who: strings.TrimSpace(who)}, nil
}

// Release gives the folder back. It may be called twice.
func (l *Lock) Release() error {
	_ = l.dir.Close() // it was only looked at
	return l.lock.Close()
}

// Here returns nil while the folder that is locked is at its place. What is written
// elsewhere is not what the next start reads, so it fails with ErrAway, and says what to
// do, while the folder is moved away, its disk is not mounted, or another one is in its
// place; until it is back. One that was removed will not come back: it is made again,
// empty, and locked, unless somebody put another one there. One that was emptied is locked
// again, and so is a lock that was replaced, unless another agent was first: it may have
// worked there, and ErrLocked is for good.
func (l *Lock) Here(now time.Time) error {
	found, err := os.Stat(l.folder)
	own, ownErr := l.dir.Stat()
	inPlace := err == nil && ownErr == nil && os.SameFile(found, own)
	switch {
	case inPlace:
		placed, err := os.Stat(l.lock.Path())
		locked, lockErr := l.lock.Stat()
		if err == nil && lockErr == nil && os.SameFile(placed, locked) {
			return nil
		}
		if err == nil && holder(l.folder) != l.who {
			return fmt.Errorf("%w: %s was emptied, and another agent, %s, has locked it since: stop that one, and start this one again", ErrLocked, l.folder, holder(l.folder))
		}
	case ownErr == nil && !removed(own):
		if err != nil {
			return fmt.Errorf("%w: %s was moved away: put it back; what it holds may not have reached headquarters yet", ErrAway, l.folder)
		}
		return fmt.Errorf("%w: another one is in the place of %s: put back the one that was there, or start the agent again to work with this one", ErrAway, l.folder)
	case err == nil && holdsFiles(l.folder):
		return fmt.Errorf("%w: %s was removed, and another one put there: start the agent again to work with it", ErrAway, l.folder)
	}
	fresh, err := Acquire(l.folder, now)
	if err != nil {
		return err
	}
	_ = l.Release() // of what is gone
	*l = *fresh
	return nil
}

func holdsFiles(folder string) bool {
	entries, err := os.ReadDir(folder)
	return err != nil || len(entries) > 0
}

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
	return holder(folder), nil
}

// holderFile says who holds the folder: Windows lets nobody read a locked file.
const holderFile = "agent.holder"

func holder(folder string) string {
	who, err := os.ReadFile(filepath.Join(folder, holderFile))
	if err != nil {
		return "unknown process"
	}
	return strings.TrimSpace(string(who))
}
