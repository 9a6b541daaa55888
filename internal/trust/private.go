package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
		return fmt.Errorf("cannot look at %s: %w", path, err)
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
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("cannot read a secret: %w", err)
	}
	return data, nil
}

// WritePrivate puts data into path with FileMode: whole and on the disk, or not
// at all. Its folder is made with FolderMode when it is not there.
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
