package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"muster/edge-agent/internal/durable"
)

func TestWriteFileReplacesOrLeavesTheOld(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "f")
	for _, content := range []string{"one", "two"} {
		if err := durable.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
	// A folder in the target's place cannot be replaced.
	blocked := filepath.Join(folder, "d")
	if err := os.MkdirAll(filepath.Join(blocked, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(blocked, []byte("x")); err == nil {
		t.Error("replaced a folder")
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestRemoveTwice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := durable.WriteFile(path, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func TestQuarantineKeepsEveryOne(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	aside := filepath.Join(folder, "damaged")
	seen := map[string]bool{}
	for range 3 {
		path := filepath.Join(folder, "f")
		if err := durable.WriteFile(path, []byte("x")); err != nil {
			t.Fatal(err)
		}
		target, err := durable.Quarantine(path, aside)
		if err != nil {
			t.Fatal(err)
		}
		seen[target] = true
	}
	entries, err := os.ReadDir(aside)
	if err != nil || len(entries) != 3 || len(seen) != 3 {
		t.Errorf("kept %v as %v, %v", entries, seen, err)
	}
}
