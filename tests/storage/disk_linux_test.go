package storage_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// mountSmall puts a disk of its own at a folder, which is made.
func mountSmall(t *testing.T, folder string, megabytes int) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", folder, "tmpfs", 0, fmt.Sprintf("mode=700,size=%dm", megabytes)); err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil { // a failed test may still hold it
			t.Error(err)
		}
	})
}

// fillDisk leaves not a byte on a folder's disk, and returns what gives it back.
func fillDisk(t *testing.T, folder string) (free func()) {
	t.Helper()
	name := filepath.Join(folder, "filler")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
