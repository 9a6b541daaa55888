package custody

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// paceSuffix names the file that tells whether the log beside the database held more
// than it. It is there from the first commit until an orderly end, and is written to right
// before each commit, so that it is newer than the database exactly when something was
// committed since the log was last taken in. What it holds says nothing.
//
// The log and its index, which both outlive a kill, may be removed together. Then the
// database alone looks sound, and is as old as the last checkpoint. This file is what
// says so. Whatever takes the log in, such as the shell of SQLite after a crash, writes
// to the database and so makes it the newer one.
//
// It is never where the log was not: it comes after the first commit that left something
// in the log, with which that was synced, and is gone for good before the log goes. Nothing else of it is synced. What
// a power cut leaves of it finds less.
const paceSuffix = ".pace"

// Pace is the file while the database is open. Only the writer uses it.
type Pace struct {
	path string
	file *os.File
}

// Paced is the file of the database at a path, which is not made yet.
func Paced(path string) Pace { return Pace{path: path + paceSuffix} }

// Step notes that a commit comes.
func (p *Pace) Step() {
	if p.file != nil {
		_, _ = p.file.WriteAt([]byte("\n"), 0) // without it less is found
	}
}

// Begin makes the file once the log holds a commit, or takes the one that a crash left.
// Without room there is none: it is tried again with the next commit.
func (p *Pace) Begin() {
	if p.file != nil {
		return
	}
	file, err := os.OpenFile(p.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	p.file = file
	p.Step()
}

// End is called before the last connection is closed, which takes the log in and
// removes it. What others put in the database's place keeps its own.
func (p *Pace) End(ours bool) {
	if p.file != nil {
		_ = p.file.Close() // nothing in it counts
		p.file = nil
	}
	if !ours {
		return
	}
	if err := os.Remove(p.path); err == nil {
		_ = SyncFolder(filepath.Dir(p.path))
	}
}

// checkPace fails when there is no log and more was committed than the database holds.
// The hash of a database that was closed in order outdoes it: an older program left it
// there.
func checkPace(path string) error {
	noted, err := os.Stat(path + paceSuffix)
	if errors.Is(err, fs.ErrNotExist) || exists(path+sealSuffix) {
		return nil
	}
	if err != nil {
		return err
	}
	own, err := os.Stat(path)
	if err != nil || !own.ModTime().Before(noted.ModTime()) {
		return err
	}
	name := filepath.Base(path)
	return fmt.Errorf("%w: it was not closed in order, and the log %s-wal is gone, in which more was committed; to go on without that: remove %s",
		ErrCorrupt, name, name+paceSuffix)
}
