//go:build !windows

package agent_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
)

// TestAFolderThatIsEmptiedDuringTheStartIsMadeAgain, at whatever moment of it, and
// takes what is journalled afterwards.
func TestAFolderThatIsEmptiedDuringTheStartIsMadeAgain(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "work")
	log := slog.New(slog.DiscardHandler)
	for i := range 200 {
		var cleaning sync.WaitGroup
		cleaning.Go(func() {
			time.Sleep(time.Duration(i) * 3 * time.Microsecond) // which moment of the start it is; nothing waits for it
			_ = os.RemoveAll(folder)                            // may fail: somebody writes there
		})
		lock, err := journal.Acquire(folder, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		book, err := journal.Open(folder, time.Now, log)
		if err != nil {
			t.Fatal(err)
		}
		box, err := outbox.Open(filepath.Join(folder, "outbox"), log)
		if err != nil {
			t.Fatal(err)
		}
		cleaning.Wait()
		if err := lock.Here(time.Now()); err != nil {
			t.Fatal(err)
		}
		entry := journal.Entry{TaskID: "t", Phase: journal.PhaseGranted, Attempt: i + 1}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if err = book.Put(entry); err == nil { // a file that was gone is left alone for a second
				break
			}
		}
		if err := errors.Join(err, box.Check(), book.Close(), lock.Release()); err != nil {
			t.Fatal(err)
		}
		again, err := journal.Open(folder, time.Now, log)
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := again.Get("t"); e.Attempt != i+1 {
			t.Fatalf("kept %+v, want attempt %d", e, i+1)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
