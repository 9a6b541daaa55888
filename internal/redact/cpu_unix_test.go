//go:build unix

package redact_test

import (
	"syscall"
	"testing"
	"time"
)

// processorTime is what this process has used of the processor: what else the machine does is not in it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano())
}
