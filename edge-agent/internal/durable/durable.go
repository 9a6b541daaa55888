// Package durable writes whole files so that after a power cut either the old
// or the new content is there, never a half.
//
// It knows nothing of what it writes.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// TempSuffix marks files that were being written; whatever carries it after a
// start is left over from a crash and may be removed.
const TempSuffix = ".tmp"

// WriteFile replaces path with data: temporary file beside it, fsync, rename,
// fsync of the folder. When it returns nil the content survives a power cut.
func WriteFile(path string, data []byte) (err error) {
	temp := path + TempSuffix
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("cannot write %s: %w", path, err), ignoreMissing(os.Remove(temp)))
		}
	}()
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp, path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Refused reports whether the medium is to blame for err, so that the same may
// succeed later: it is full, over a quota, read-only, or fails.
func Refused(err error) bool {
	for _, code := range mediumErrors {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// Check writes n bytes to a file in folder, which is made when it is gone, and
// removes it again: nil says that an answer of this size would be kept.
func Check(folder string, n int) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("cannot make %s: %w", folder, err)
	}
	path := filepath.Join(folder, "check"+TempSuffix)
	if err := WriteFile(path, make([]byte, n)); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(path))
}

// Remove deletes path and makes the deletion durable. A missing file is no
// error.
func Remove(path string) error {
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Quarantine moves path into folder, which is made when absent, under its own
// name with a numbered suffix when that is taken, and returns where it went.
func Quarantine(path, folder string) (string, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("cannot set %s aside: %w", path, err)
	}
	target := filepath.Join(folder, filepath.Base(path))
	for n := 1; ; n++ {
		if _, err := os.Lstat(target); errors.Is(err, os.ErrNotExist) {
			break
		}
		target = filepath.Join(folder, fmt.Sprintf("%s.%d", filepath.Base(path), n))
	}
	if err := os.Rename(path, target); err != nil {
		return "", fmt.Errorf("cannot set %s aside: %w", path, err)
	}
	return target, errors.Join(SyncFolder(folder), SyncFolder(filepath.Dir(path)))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
