package stamp_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/edge-agent/internal/stamp"
)

// TestNumbersGrowWhateverTheClockDid: it jumps while the terminal works, so that
// what the journal holds was written at an earlier time than numbers were made of.
func TestNumbersGrowWhateverTheClockDid(t *testing.T) {
	t.Parallel()
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	right := time.Date(2026, 9, 17, 12, 0, 0, 0, time.UTC)
	last := int64(0)
	for i, clock := range []time.Time{right, time.Unix(5, 0), right.Add(26 * time.Hour), right.Add(-26 * time.Hour), time.Unix(0, 0), right} {
		now := clock
		m := stamp.New(func() time.Time { return now }, time.Unix(5, 0))
		m.Keep(folder, log)
		for _, jump := range []time.Duration{0, -26 * time.Hour, 26 * time.Hour, 0} {
			now = clock.Add(jump)
			m.Advance()
			if next := m.Meta().Seq; next <= last {
				t.Errorf("start %d at %s: %d after %d", i, now, next, last)
			} else {
				last = next
			}
		}
	}
}

// TestACopyOfTheFolderIsSoonBehind: a machine that starts on it at once, and takes
// the connection, is below this one when that is back.
func TestACopyOfTheFolderIsSoonBehind(t *testing.T) {
	t.Parallel()
	folder, copied, log := t.TempDir(), t.TempDir(), slog.New(slog.DiscardHandler)
	now := time.Date(2026, 9, 17, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	m := stamp.New(clock, time.Time{})
	m.Keep(folder, log)
	m.Meta()
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	other := stamp.New(clock, time.Time{})
	other.Keep(copied, log)
	last := other.Meta().Seq
	now = now.Add(30 * time.Second) // what a link waits then, at least
	m.Advance()
	if next := m.Meta().Seq; next <= last {
		t.Errorf("%d after the copy's %d", next, last)
	}
}

func TestADiskThatRefusesHoldsNoMessageBack(t *testing.T) {
	t.Parallel()
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	if err := os.WriteFile(filepath.Join(folder, "numbers"), []byte("-7"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := stamp.New(time.Now, time.Time{})
	m.Keep(filepath.Join(folder, "numbers"), log) // a file is no folder
	first := m.Meta().Seq
	m = stamp.New(time.Now, time.Time{})
	m.Keep(folder, log)
	if next := m.Meta().Seq; next <= first {
		t.Errorf("%d after %d", next, first)
	}
}
