package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"muster/internal/files"
)

// ErrOpenToOthers says that a file or folder of secrets is not its owner's
// alone.
var ErrOpenToOthers = errors.New("others may read it")

// The modes of secrets.
const (
	FileMode   fs.FileMode = 0o600
	FolderMode fs.FileMode = 0o700
)

// CheckPrivate fails with ErrOpenToOthers when group or others have any right
// to a file or folder, and says how to mend it. Windows keeps rights elsewhere
// and is not looked at.
func CheckPrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot look at %s: %w", path, files.Mended(err))
	}
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	want := FileMode
	if info.IsDir() {
		want = FolderMode
	}
	return fmt.Errorf("%s has mode %04o: %w; run: chmod %o %s", path, info.Mode().Perm(), ErrOpenToOthers, want, path)
}

// ReadPrivate reads a file of secrets after CheckPrivate.
func ReadPrivate(path string) ([]byte, error) {
	if err := CheckPrivate(path); err != nil {
		return nil, err
	}
	data, err := files.Read(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read a secret: %w", err)
	}
	return data, nil
}

// ReadOwn is ReadPrivate of a file that the program itself keeps: what is no regular file
// is refused.
func ReadOwn(path string) ([]byte, error) {
	if err := files.CheckPlain(path); err != nil {
		return nil, fmt.Errorf("cannot read a secret: %w", err)
	}
	return ReadPrivate(path)
}

// WritePrivate puts data into path with FileMode: whole and on the disk, or not
// at all. Its folder is made with FolderMode when it is not there. A crash may leave
// what RemoveUnfinished removes.
func WritePrivate(path string, data []byte) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, FolderMode); err != nil {
		return fmt.Errorf("cannot make a folder for secrets: %w", err)
	}
	file, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*") // made with 0600
	if err != nil {
		return fmt.Errorf("cannot write a secret: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			err = fmt.Errorf("cannot write %s: %w", path, err)
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err == nil {
		err = SyncFolder(folder)
	}
	return err
}

// unfinished is how files are called that WritePrivate has not finished.
var unfinished = regexp.MustCompile(`^\..+\.[0-9]+$`)

// unfinishedLife bounds how long another process may be in the middle of a
// WritePrivate, which takes milliseconds on a disk that works.
const unfinishedLife = time.Minute

// RemoveUnfinished removes what a crash left of WritePrivate in a folder that holds
// nothing but secrets: it may be a private key. What is less than a minute old
// stays, since another process may be writing it.
func RemoveUnfinished(folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("cannot look for unfinished secrets: %w", err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil || !info.Mode().IsRegular() || !unfinished.MatchString(file.Name()) || time.Since(info.ModTime()).Abs() < unfinishedLife {
			continue
		}
		if err := os.Remove(filepath.Join(folder, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove an unfinished secret: %w", err)
		}
	}
	return nil
}

// SyncFolder makes a rename in the folder last. It does nothing on Windows, which
// has no such call.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(filepath.Clean(folder))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
