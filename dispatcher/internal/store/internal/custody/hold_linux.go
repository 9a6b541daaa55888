package custody

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// holdFile locks the file itself, so that a lock file that was removed lets nobody in.
// This lock and those of SQLite (fcntl) do not see each other. A file system without
// it leaves the lock file alone to count.
func holdFile(file *os.File) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%w: its lock file was removed, and the process still runs (%s)", ErrLocked, file.Name())
	}
	return nil
}

// releaseFile unlocks before it closes: a program that is being started holds a copy of
// the open file for a moment, and the lock would last as long as that.
func releaseFile(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}
