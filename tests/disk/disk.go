// Package disk lets tests prove an fsync, and gives them disks without room. A
// kill -9 loses nothing that was merely written, so it proves no fsync; but the
// kernel tells which pages of a file are not on the disk yet. It is for tests alone.
package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/tests/programs"
)

// settleTime is how long a file may be dirty because something else is being
// written to it at the moment. Without an fsync it stays so for about half a
// minute.
const settleTime = 2 * time.Second

// errUntold is returned where the system cannot tell.
var errUntold = errors.New("this system does not tell which pages are written")

// NeedsTelling skips the test where kernel or file system cannot tell.
func NeedsTelling(t *testing.T) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, 9000)); err != nil {
		t.Fatal(err)
	}
	before, err := unwritten(file.Name())
	if err != nil {
		programs.Lack(t, "%v", err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if after, err := unwritten(file.Name()); err != nil || before == 0 || after != 0 {
		programs.Lack(t, "%d pages were unwritten before and %d after an fsync, %v: %v", before, after, err, errUntold)
	}
}

// Want fails the test unless each file is wholly on the disk, now or as soon
// as what is being written to it at the moment is.
func Want(t *testing.T, what string, paths ...string) {
	t.Helper()
	if len(paths) == 0 {
		t.Errorf("%s: there is no file", what)
	}
	for _, path := range paths {
		pages, err := unwritten(path)
		tick := time.NewTicker(time.Millisecond)
		for deadline := time.Now().Add(settleTime); err == nil && pages > 0 && time.Now().Before(deadline); <-tick.C {
			pages, err = unwritten(path)
		}
		tick.Stop()
		if err != nil || pages > 0 {
			t.Errorf("%s: %d pages of %s are not on the disk, %v", what, pages, filepath.Base(path), err)
		}
	}
}
