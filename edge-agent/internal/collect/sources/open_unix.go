//go:build !windows

package sources

import (
	"errors"
	"os"
	"syscall"
)

// openShared opens without waiting: a pipe that took the place of a log between the look and the opening must not
// hold the terminal up.
func openShared(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
}

func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ETXTBSY)
}
