package enrol_test

import (
	"path/filepath"
	"testing"

	"muster/tests/disk"
)

// TestATerminalWithAFullDiskEnrolsWhenThereIsRoom, with the same token.
func TestATerminalWithAFullDiskEnrolsWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	small := filepath.Join(t.TempDir(), "disk")
	disk.Small(t, small, 1)
	disk.Fill(t, small)
	b.folder = filepath.Join(small, "identity")
	w := b.await()
	w.write(w.hq.Token(holder)+"\n", 0o600)
	w.log.await(t, "no space left on device")
	disk.Free(t, small)
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	w.open()
}
