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
			if n := rapid.IntRange(-2000, 3000).Draw(t, "spent"); n > 0 { // whatever is there
				b.Spend(now, n)
				taken += n
			}
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

// TestABucketIsMadeAgainFromWhatWasTaken: it is never fuller than the one that
// was lost, and no emptier when all is known.
func TestABucketIsMadeAgainFromWhatWasTaken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Float64Range(0.1, 1000).Draw(t, "perSecond")
		burst := rapid.IntRange(1, 50).Draw(t, "burst")
		lost, now := bucket.New(perSecond, burst), start()
		var taken []time.Time
		pause := time.Duration(4 / perSecond * float64(time.Second))
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			if lost.Take(now, 1) {
				taken = append(taken, now)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "eighths")) * pause / 8)
		}
		known := taken[len(taken)-min(len(taken), rapid.IntRange(1, 300).Draw(t, "known")):]
		whole := len(known) == len(taken)
		again := bucket.After(perSecond, burst, known, whole, now)
		for n := 1; n <= burst; n++ {
			before, after := lost.Due(now, n), again.Due(now, n)
			if after < before-time.Microsecond {
				t.Fatalf("%d tokens are due in %v, in the lost bucket in %v", n, after, before)
			}
			if whole && after > before+time.Microsecond {
				t.Fatalf("all is known, and %d tokens are due in %v, in the lost bucket in %v", n, after, before)
			}
		}
	})
}

func TestAClockThatWasSetGivesNoTokens(t *testing.T) {
	t.Parallel()
	now := start()
	ahead := []time.Time{now.Add(time.Hour), now.Add(time.Hour), now.Add(time.Hour), now.Add(-time.Hour)}
	if got := bucket.After(1, 4, ahead, true, now); got.Due(now, 1) != time.Second {
		t.Errorf("a token is due in %v after 4 of 4 were taken, as the clock before now said", got.Due(now, 1))
	}
}

// TestAnEmptyBucketIsNoFullerThanAnyThatWasLost, whatever was taken from that.
func TestAnEmptyBucketIsNoFullerThanAnyThatWasLost(t *testing.T) {
	t.Parallel()
	lost, now := bucket.New(10, 5), start()
	lost.Take(now, 5)
	empty := bucket.Empty(10, 5, now)
	for n := 1; n <= 5; n++ {
		if got, want := empty.Due(now, n), lost.Due(now, n); got != want || got != time.Duration(n)*100*time.Millisecond {
			t.Errorf("%d tokens are due in %v, in the lost bucket in %v", n, got, want)
		}
	}
	if !bucket.Empty(0, 1, now).Take(now, 1000) {
		t.Error("an unlimited bucket is empty")
	}
}
