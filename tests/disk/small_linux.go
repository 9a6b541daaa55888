package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"muster/tests/programs"
)

// Small puts a disk of its own at a folder, which is made, until the test ends.
func Small(t testing.TB, folder string, megabytes int) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", folder, "tmpfs", 0, fmt.Sprintf("mode=700,size=%dm", megabytes)); err != nil {
		programs.Lack(t, "no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil { // a failed test may still hold it
			t.Error(err)
		}
	})
}

// Filler is the file by which Fill fills a folder's disk.
func Filler(folder string) string { return filepath.Join(folder, "filler") }

// Fill leaves not a byte on a folder's disk. It may be called again: a process that
// was killed gives some back.
func Fill(t testing.TB, folder string) {
	t.Helper()
	file, err := os.OpenFile(Filler(folder), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
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
}

// Free takes the filler away.
func Free(t testing.TB, folder string) {
	t.Helper()
	if err := os.Remove(Filler(folder)); err != nil {
		t.Fatal(err)
	}
}

// Freeze makes a folder one in which even root changes no name, or a usual one.
func Freeze(t testing.TB, folder string, on bool) {
	t.Helper()
	file, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	flags := 0
	if on {
		flags = unix.STATX_ATTR_IMMUTABLE // the same bit
	}
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
		programs.Lack(t, "no folder can be frozen: %v", err)
	}
}
