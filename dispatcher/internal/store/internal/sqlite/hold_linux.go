package sqlite

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
