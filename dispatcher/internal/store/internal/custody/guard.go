package custody

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Guard compares the files in the database's place with those that are open. Its
// file is closed after SQLite's: closing one drops the locks of all (fcntl(2)).
type Guard struct {
	path string
	file *os.File
	own  fs.FileInfo // as it was looked at last
	log  fs.FileInfo // the same of the log; nil: not seen yet
}

// Hold takes the database at a resolved path, whose lock the caller has: it makes the
// file of a new one, and fails with ErrCorrupt unless what stands there is what was left
// there. sealed says that this was known of every byte.
func Hold(path string) (g *Guard, sealed bool, err error) {
	if err := checkLife(path); err != nil {
		return nil, false, err
	}
	if g, err = newGuard(path); err != nil {
		return nil, false, err
	}
	if sealed, err = checkSeal(path); err == nil {
		err = checkHeader(path)
	}
	if err == nil {
		err = checkLog(path)
	}
	if err != nil {
		return nil, false, errors.Join(err, g.Close())
	}
	return g, sealed, nil
}

// newGuard makes the file of a new database and holds it against whoever does not
// see the lock file.
func newGuard(path string) (*Guard, error) {
	// Results are a store's own affair; the files beside it inherit the mode.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	g := &Guard{path: path, file: file}
	if err = holdFile(file); err == nil {
		g.own, err = file.Stat()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return g, nil
}

// Close lets go of the file.
func (g *Guard) Close() error { return releaseFile(g.file) }

// Look fails with ErrGone, and with ErrCorrupt when the file holds no database any
// more. One goroutine calls it.
func (g *Guard) Look() error {
	if err := g.LookAtFile(); err != nil {
		return err
	}
	return g.lookAtLog()
}

// LookAtFile is Look without the log, which the last connection takes in.
func (g *Guard) LookAtFile() error {
	own, err := same(g.path, g.own)
	if err != nil {
		return err
	}
	header := make([]byte, len(fileMagic))
	if _, err := g.file.ReadAt(header, 0); err != nil || string(header) != fileMagic || own.Size() < g.own.Size() { // nothing makes it smaller
		return fmt.Errorf("%w: %s was overwritten or cut while it was open", ErrCorrupt, g.path)
	}
	g.own = own
	return nil
}

func (g *Guard) lookAtLog() error {
	path := g.path + "-wal"
	if g.log == nil {
		if info, err := os.Stat(path); err == nil && info.Size() > logHeaderBytes {
			g.log = info
		}
		return nil
	}
	log, err := same(path, g.log)
	if err != nil {
		return err
	}
	if log.Size() < min(g.log.Size(), MaxIdleLog) {
		return fmt.Errorf("%w: the log %s was cut", ErrGone, path)
	}
	g.log = log
	return nil
}

// Logged reports whether a look has found anything in the log.
func (g *Guard) Logged() bool { return g.log != nil }

// MaxIdleLog is how much of a log that was taken in is kept to be written over: what is
// larger is cut to it.
const MaxIdleLog = 32 << 20

// fileMagic begins each database (section 1.3.1 of the SQLite file format).
const fileMagic = "SQLite format 3\x00"

// same looks at what the path leads to. It fails with ErrGone when that is not the file
// that is open. A system that cannot say leaves it open.
func same(path string, open fs.FileInfo) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not there any more", ErrGone, path)
	}
	if err == nil && !os.SameFile(info, open) {
		return nil, fmt.Errorf("%w: another file is in the place of %s", ErrGone, path)
	}
	return cmp.Or(info, open), nil
}
