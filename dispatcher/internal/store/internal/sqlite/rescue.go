package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/dispatcher/internal/store/internal/custody"
)

// rescue saves what the writer still has, and adds to the error where it is and what
// to do. Without the folder the file goes into the one above.
func (w *writer) rescue(gone error) error {
	path := w.path
	folder := filepath.Dir(path)
	if _, err := os.Lstat(folder); err != nil {
		folder = filepath.Dir(folder)
	}
	file := filepath.Join(folder, filepath.Base(path)+".rescued-"+time.Now().UTC().Format("20060102T150405Z"))
	if err := w.saveTo(file); err != nil {
		return fmt.Errorf("%w; what was open cannot be saved (%w): put the files back as they were, or run: dispatcher restore BACKUP --data %s",
			gone, err, filepath.Dir(path))
	}
	return fmt.Errorf("%w; all that was acknowledged is saved in %s: put the files back as they were, or run: dispatcher restore %s --data %s",
		gone, file, file, filepath.Dir(path))
}

func (w *writer) saveTo(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	uri, err := address(path, nil)
	if err == nil {
		_, err = w.conn.ExecContext(context.Background(), "VACUUM INTO ?", uri)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		return custody.SyncFolder(filepath.Dir(path))
	}
	return errors.Join(err, os.Remove(path))
}
