package journal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"muster/edge-agent/internal/journal"
	"muster/tests/disk"
)

// TestALineThatAFullDiskCutsSpoilsNoOther: it is taken back before the next.
func TestALineThatAFullDiskCutsSpoilsNoOther(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "disk")
	disk.Small(t, folder, 1)
	j := open(t, folder, time.Now)
	put(t, j, "first", journal.PhaseGranted, 1)
	disk.Fill(t, folder)
	taken := 1
	for ; taken < 1000; taken++ {
		err := j.Put(journal.Entry{TaskID: fmt.Sprint("t", taken), Phase: journal.PhaseGranted, Attempt: 1})
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	disk.Free(t, folder)
	put(t, j, "last", journal.PhaseGranted, 1)
	again := open(t, folder, time.Now)
	if found := again.Open(); len(found) != taken+1 || again.Gap() {
		t.Errorf("%d of %d lines are read, gap %t", len(found), taken+1, again.Gap())
	}
}
