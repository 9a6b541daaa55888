package custody_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"muster/dispatcher/internal/store/internal/custody"
)

// TestWhatIsReleasedIsFreeThoughAnotherHasACopy: a program on its way to be started has a
// copy of every open file.
func TestWhatIsReleasedIsFreeThoughAnotherHasACopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	first, err := custody.HoldFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	copied := os.NewFile(uintptr(fd), "copy")
	t.Cleanup(func() { _ = copied.Close() })
	if _, err := custody.HoldFile(path); err == nil {
		t.Error("two hold it")
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := custody.HoldFile(path)
	if err != nil {
		t.Fatalf("it is not free: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
}
