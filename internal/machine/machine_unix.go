//go:build !windows

package machine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Disk is the room where a folder is.
func Disk(folder string) (Room, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return Room{}, fmt.Errorf("cannot ask for the room in %s: %w", folder, err)
	}
	block := uint64(s.Bsize)
	return Room{Free: uint64(s.Bavail) * block, Total: uint64(s.Blocks) * block}, nil //nolint:unconvert // signed on FreeBSD
}

// OpenFiles is how many files and connections this process may have open at once.
func OpenFiles() (uint64, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("cannot ask for the limit of open files: %w", err)
	}
	return uint64(r.Cur), nil //nolint:unconvert // signed on FreeBSD
}

func inUse(err error) bool { return errors.Is(err, unix.EADDRINUSE) }

func notHere(err error) bool { return errors.Is(err, unix.EADDRNOTAVAIL) }
