// Package files reads the small files that people write for the programs, and
// makes the folders that these need. Its errors say what is wrong, where, and what
// to do about it.
//
// It knows no program, and never repeats what a file holds: it may be a secret.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read is os.ReadFile with errors of Mended.
func Read(path string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, Mended(err)
	}
	return data, nil
}

// Mended adds to an error about a file or folder, which is wrapped, what to do about
// it. An error that it cannot help with comes back as it is.
func Mended(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: put it there, or name another", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let %s, as whom this program runs, use it and the folders above it", err, whoRuns())
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: name a file", err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: what stands above it is a file; name another place", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: mount the disk so that it takes writes, or name another place", err)
	}
	return err
}

// whoRuns is the user of this process, for people.
func whoRuns() string {
	if id := os.Geteuid(); id >= 0 {
		return fmt.Sprintf("the user of number %d", id)
	}
	return "the user" // Windows has no numbers
}
