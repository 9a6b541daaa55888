package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// reserve takes n bytes of the disk for the file.
func reserve(file *os.File, n int64) error {
	err := syscall.Fallocate(int(file.Fd()), 0, 0, n)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return fill(file, n)
	}
	return err
}
