// Package clocked is a wall clock that can be set while a program runs:
// this machine's, plus an offset that stands in a file. The programs headquarters
// and terminal below it are the real ones with such a clock.
//
// Monotonic time goes on as it does: the package sets what people set.
package clocked

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Wall returns a clock that stands off this machine's by the duration in the file,
// such as -26h. A file that is not there says 0; one that cannot be read, what it
// said before. The clock is safe for concurrent use.
func Wall(file string) func() time.Time {
	var mu sync.Mutex
	var off time.Duration
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		text, err := os.ReadFile(file)
		if said, bad := time.ParseDuration(strings.TrimSpace(string(text))); err == nil && bad == nil {
			off = said
		}
		return time.Now().Round(0).Add(off)
	}
}

// Set puts an offset into the file; who reads it finds the old one or this one.
func Set(file string, off time.Duration) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(off.String()), 0o600); err != nil {
		return fmt.Errorf("cannot set the clock in %s: %w", file, err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("cannot set the clock in %s: %w", file, err)
	}
	return nil
}
