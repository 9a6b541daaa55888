//go:build !windows

package programs

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// Taken waits until somebody reads the named pipe at path, into which nobody writes
// until the test is over. It is false once ended is closed instead.
func Taken(t testing.TB, path string, ended <-chan struct{}) bool {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		pipe, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails without a reader
		if err == nil {
			t.Cleanup(func() {
				_, _ = pipe.WriteString("[") // what was left behind ends, with an error
				_ = pipe.Close()
			})
			return true
		}
		if !errors.Is(err, syscall.ENXIO) {
			t.Fatal(err)
		}
		select {
		case <-ended:
			return false
		case <-poll.C:
		}
	}
}
