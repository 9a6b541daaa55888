package bucket_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/bucket"
)

func start() time.Time { return time.Date(2026, 9, 17, 9, 0, 0, 0, time.UTC) }

func TestWhatIsDueCanBeTaken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Float64Range(0.01, 1e6).Draw(t, "perSecond")
		burst := rapid.IntRange(1, 1000).Draw(t, "burst")
		b := bucket.New(perSecond, burst)
		now, taken := start(), 0
		for range rapid.IntRange(1, 50).Draw(t, "takes") {
			n := rapid.IntRange(1, burst).Draw(t, "n")
			wait := b.Due(now, n)
			if wait > time.Microsecond && b.Take(now, n) {
				t.Fatalf("%d tokens were taken %v before they were due", n, wait)
			}
			now = now.Add(wait)
			if !b.Take(now, n) {
				t.Fatalf("%d tokens were due and are not there", n)
			}
			taken += n
			most := float64(burst) + perSecond*(now.Sub(start()).Seconds()+1e-6)
			if float64(taken) > most*(1+1e-9) {
				t.Fatalf("%d tokens taken, at most %v by now", taken, most)
			}
		}
	})
}

func TestNoRateMeansNoLimit(t *testing.T) {
	t.Parallel()
	b := bucket.New(0, 0)
	for range 1000 {
		if b.Due(start(), 1) != 0 || !b.Take(start(), 1) {
			t.Fatal("an unlimited bucket ran dry")
		}
	}
}

func TestMoreThanTheBurstIsDueWithTheFullBucket(t *testing.T) {
	t.Parallel()
	b := bucket.New(10, 5)
	b.Take(start(), 5)
	if got := b.Due(start(), 50); got != 500*time.Millisecond {
		t.Errorf("50 tokens of a bucket of 5 are due in %v", got)
	}
	if b.Take(start().Add(time.Hour), 6) {
		t.Error("6 tokens were taken from a bucket of 5")
	}
}
