package sources

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	sharingViolation = syscall.Errno(32)
	lockViolation    = syscall.Errno(33)
	// shareDelete lets the log's owner rename or delete the file while it is being read; the standard library leaves
	// it out, and rotation would fail for as long as the collector reads.
	shareDelete = 0x4
)

func openShared(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ,
		syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE|shareDelete,
		nil, syscall.OPEN_EXISTING, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}

func isLocked(err error) bool {
	return errors.Is(err, sharingViolation) || errors.Is(err, lockViolation)
}
