package stamp_test

import (
	"sync"
	"testing"
	"time"

	"muster/edge-agent/internal/stamp"
)

func TestSequenceGrowsAcrossARestartWithTheClockSetBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 17, 12, 0, 0, 0, time.UTC)
	first := stamp.New(func() time.Time { return now }, time.Time{})
	last := first.Meta().Seq
	for range 1000 {
		if next := first.Meta().Seq; next <= last {
			t.Fatalf("%d after %d", next, last)
		} else {
			last = next
		}
	}
	wrote := now
	now = now.Add(-24 * time.Hour)
	if next := stamp.New(func() time.Time { return now }, wrote).Meta().Seq; next <= last {
		t.Errorf("%d after a restart, %d before", next, last)
	}
}

func TestIdsAreUnique(t *testing.T) {
	t.Parallel()
	m := stamp.New(time.Now, time.Time{})
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				id := m.Meta().ID
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 2000 {
		t.Errorf("%d ids of 2000", len(seen))
	}
}

func TestAClockBefore1970StampsToo(t *testing.T) {
	t.Parallel()
	m := stamp.New(func() time.Time { return time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC) }, time.Time{})
	first, second := m.Meta(), m.Meta()
	if len(first.ID) != 26 || first.ID == second.ID || first.Seq <= 0 || second.Seq <= first.Seq {
		t.Errorf("stamps %+v and %+v", first, second)
	}
}
