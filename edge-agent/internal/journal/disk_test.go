package journal_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"muster/edge-agent/internal/journal"
	"muster/tests/disk"
)

// TestWhatIsPutIsOnTheDisk: an intent that is journalled before its execution
// starts must survive a power cut, or the attempt would start twice.
func TestWhatIsPutIsOnTheDisk(t *testing.T) { // I3
	t.Parallel()
	disk.NeedsTelling(t)
	folder := t.TempDir()
	book, err := journal.Open(folder, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(folder, "journal.log")
	disk.Want(t, "a new journal", path)
	for i := range 5 {
		if err := book.Put(journal.Entry{TaskID: fmt.Sprintf("T%d", i), Phase: journal.PhaseGranted, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		disk.Want(t, "an intent", path)
	}
}
