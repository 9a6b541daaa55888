package durable_test

import (
	"path/filepath"
	"testing"

	"muster/edge-agent/internal/durable"
	"muster/tests/disk"
)

// TestWhatIsWrittenIsOnTheDisk: an answer that is sent must survive a power cut.
func TestWhatIsWrittenIsOnTheDisk(t *testing.T) { // I1
	t.Parallel()
	disk.NeedsTelling(t)
	path := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"one", "two"} {
		if err := durable.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		disk.Want(t, "a file that was written", path)
	}
}
