package protocol_test

import (
	"math"
	"testing"
	"time"

	"muster/internal/protocol"
)

// TestAHugeNumberOfMillisecondsStaysOnItsSide: times a million it would not fit.
func TestAHugeNumberOfMillisecondsStaysOnItsSide(t *testing.T) {
	const most = 100 * 365 * 24 * time.Hour
	for ms, want := range map[int64]time.Duration{
		0: 0, 125: 125 * time.Millisecond, -3: -3 * time.Millisecond,
		9_300_000_000_000: most, math.MaxInt64: most, math.MinInt64: -most,
	} {
		if got := protocol.Span(ms); got != want {
			t.Errorf("%d ms are %s, want %s", ms, got, want)
		}
	}
}
