package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrGone says that the files of the open database are not in their place any more.
// What is written goes into files that nobody will find again.
var ErrGone = errors.New("the database was taken away while it was open")

// guard compares the files in the database's place with those that are open. Its
// file is closed after SQLite's: closing one drops the locks of all (fcntl(2)).
type guard struct {
	path string
	file *os.File
	own  fs.FileInfo
	log  fs.FileInfo // nil: not seen yet
}

// newGuard makes the file of a new database and holds it against whoever does not
// see the lock file.
func newGuard(path string) (*guard, error) {
	// Results are a store's own affair; the files beside it inherit the mode.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	g := &guard{path: path, file: file}
	if err = holdFile(file); err == nil {
		g.own, err = file.Stat()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return g, nil
}

func (g *guard) close() error { return releaseFile(g.file) }

// look fails with ErrGone, and with ErrCorrupt when the file holds no database any
// more. Only the writer calls it.
func (g *guard) look() error {
	if err := g.lookAtFile(); err != nil {
		return err
	}
	return g.lookAtLog()
}

func (g *guard) lookAtFile() error {
	if err := same(g.path, g.own); err != nil {
		return err
	}
	header := make([]byte, len(fileMagic))
	if _, err := g.file.ReadAt(header, 0); err != nil || string(header) != fileMagic {
		return fmt.Errorf("%w: %s was overwritten or cut while it was open", ErrCorrupt, g.path)
	}
	return nil
}

func (g *guard) lookAtLog() error {
	if g.log == nil {
		if info, err := os.Stat(g.path + "-wal"); err == nil && info.Size() > logHeaderBytes {
			g.log = info
		}
		return nil
	}
	if err := same(g.path+"-wal", g.log); err != nil {
		return err
	}
	if info, err := os.Stat(g.path + "-wal"); err == nil && info.Size() < logHeaderBytes {
		return fmt.Errorf("%w: the log %s-wal was cut", ErrGone, g.path)
	}
	return nil
}

// fileMagic begins each database (section 1.3.1 of the SQLite file format).
const fileMagic = "SQLite format 3\x00"

// same fails with ErrGone when the path does not lead to the file that is open. A
// system that cannot say leaves it open.
func same(path string, open fs.FileInfo) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is not there any more", ErrGone, path)
	case err == nil && !os.SameFile(info, open):
		return fmt.Errorf("%w: another file is in the place of %s", ErrGone, path)
	}
	return nil
}

// rescue saves what the writer still has, and adds to the error where it is and what
// to do. Without the folder the file goes into the one above.
func (w *writer) rescue(gone error) error {
	path := w.guard.path
	folder := filepath.Dir(path)
	if !exists(folder) {
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
		return SyncFolder(filepath.Dir(path))
	}
	return errors.Join(err, os.Remove(path))
}

// checkLife tells a new database from one that somebody removed or emptied: the
// files of an earlier life are still there. A database has its first page before any
// of them is made.
func checkLife(path string) error {
	what := "is not there"
	if info, err := os.Stat(path); err == nil {
		if info.Size() > 0 {
			return nil
		}
		what = "is empty"
	}
	for _, suffix := range []string{"-wal", "-shm", sealSuffix, ballastSuffix, paceSuffix} {
		if exists(path + suffix) {
			return fmt.Errorf("%w: it %s, and %s of an earlier life is; to begin with nothing instead: move the folder away",
				ErrCorrupt, what, filepath.Base(path)+suffix)
		}
	}
	return nil
}
