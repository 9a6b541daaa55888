package custody

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Resolve is the one name of a file that many may lead to.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		return target, nil // one file, one lock, whatever names lead to it
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// SyncFolder makes what was created, renamed and removed in it lasting.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	if err = folder.Sync(); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = nil // a system that cannot sync folders writes them through
	}
	return errors.Join(err, folder.Close())
}

// Beside are the endings of the files that belong to a database at rest, the
// database's own "" last.
func Beside() []string { return []string{paceSuffix, "-wal", sealSuffix, ""} }

// Remove removes a database that nobody holds, and every file beside it.
func Remove(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", lockSuffix, BallastSuffix, sealSuffix, paceSuffix} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
