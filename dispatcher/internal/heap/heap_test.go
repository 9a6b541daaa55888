package heap_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"muster/dispatcher/internal/heap"
)

const mib = 1 << 20

func TestPercent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size, live, read uint64
		want             int
	}{
		"nothing is read yet":       {128, 0, 0, 100},
		"little is alive":           {128, 4, 5, 200},
		"it grows to its size":      {128, 28, 80, 125},
		"stacks are read too":       {128, 28, 60, 166},
		"half of it is alive":       {128, 64, 64, 100},
		"more than that":            {128, 100, 120, 100},
		"more than the whole of it": {128, 300, 320, 100},
	} {
		if got := heap.PercentFor(c.size*mib, c.live*mib, c.read*mib); got != c.want {
			t.Errorf("%s: %d percent, want %d", name, got, c.want)
		}
	}
}

// TestASmallHeapWaitsAndALargeOneDoesNot sets the collector of this whole process, so
// it runs alone.
func TestASmallHeapWaitsAndALargeOneDoesNot(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	release := heap.Hold(64 * mib)
	settles(t, 200)
	grown(t)
	settles(t, 200)
	release()
	if got := percent(); got != 100 {
		t.Errorf("%d percent after the release", got)
	}
}

func TestWhatAnOperatorSetStays(t *testing.T) {
	for _, own := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(own, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(own, "off")
			release := heap.Hold(64 * mib)
			runtime.GC()
			if got := percent(); got != 100 {
				t.Errorf("%d percent", got)
			}
			release()
		})
	}
}

// grown wants a heap of which 96 MiB are alive to be collected as usual.
func grown(t *testing.T) {
	t.Helper()
	alive := make([][]byte, 96)
	for i := range alive {
		alive[i] = make([]byte, mib)
	}
	settles(t, 100)
	runtime.KeepAlive(alive)
}

// settles waits until what is alive has become the setting; each collection is
// followed by one that a goroutine makes.
func settles(t *testing.T, want int) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		if percent() == want {
			return
		}
	}
	t.Errorf("%d percent after 1,000 collections, want %d", percent(), want)
}

func percent() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}
