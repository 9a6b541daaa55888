package trust_test

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/trust"
)

func TestWindowTakesEachNumberOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const size = 128
		floor := rapid.Int64Range(0, 1<<50).Draw(t, "floor")
		w := trust.NewWindow(size, floor)
		seen, highest := map[int64]bool{}, floor
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			step := rapid.OneOf(rapid.Int64Range(-2*size, 2*size), rapid.Int64Range(-3, 3)).Draw(t, "step")
			number := highest + step
			if rapid.IntRange(0, 4).Draw(t, "give back") == 0 && seen[number] {
				w.GiveBack(number)
				if number > highest-size {
					delete(seen, number)
				}
				continue
			}
			fresh := number > 0 && number > highest-size && !seen[number] && number > floor
			err := w.Take(number)
			if (err == nil) != fresh {
				t.Fatalf("number %d after %d (floor %d): %v, want fresh %v", number, highest, floor, err, fresh)
			}
			if err != nil && !errors.Is(err, trust.ErrReplayed) {
				t.Fatal(err)
			}
			if fresh {
				seen[number], highest = true, max(highest, number)
			}
			if w.Highest() != highest {
				t.Fatalf("highest %d, want %d", w.Highest(), highest)
			}
		}
	})
}

func TestWindowTakesNoNumberThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	w := trust.NewWindow(1024, 0)
	for _, number := range []int64{math.MaxInt64, math.MaxInt64 - 7, trust.MaxNumber + 1, 0, -1, math.MinInt64} {
		if err := w.Take(number); !errors.Is(err, trust.ErrReplayed) {
			t.Errorf("%d: %v", number, err)
		}
	}
	for _, number := range []int64{trust.MaxNumber, trust.MaxNumber - 1} {
		if err := w.Take(number); err != nil {
			t.Errorf("%d: %v", number, err)
		}
	}
	full := trust.NewWindow(64, math.MaxInt64)
	if err := full.Take(trust.MaxNumber); !errors.Is(err, trust.ErrReplayed) {
		t.Errorf("below a floor out of all bounds: %v", err)
	}
	full.GiveBack(trust.MaxNumber)
}

func TestWindowLetsOneOfTwoThroughAtOnce(t *testing.T) {
	t.Parallel()
	w := trust.NewWindow(1024, 0)
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := int64(1); n <= 500; n++ {
				if w.Take(n) == nil {
					taken.Add(1)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() != 500 {
		t.Errorf("500 numbers were taken %d times", taken.Load())
	}
}
