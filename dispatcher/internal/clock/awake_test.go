package clock_test

import (
	"testing"
	"time"

	"muster/dispatcher/internal/clock"
)

func TestOnlyAGapIsLost(t *testing.T) {
	begun := time.Now()
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	look := clock.NewPulse(begun)
	for _, step := range []struct {
		ms   int
		lost time.Duration
	}{
		{250, 0},
		{1250, 0}, // a busy machine
		{41250, 40 * time.Second},
		{41200, 40 * time.Second}, // who read the time before and asks after
		{41500, 40 * time.Second},
		{43500, 42 * time.Second},
	} {
		if got := look(at(step.ms)); got != step.lost {
			t.Errorf("after %d ms %s is lost, want %s", step.ms, got, step.lost)
		}
	}
}

func TestNothingIsLostBeforeTheStart(t *testing.T) {
	c := clock.New(time.Now)
	before := c.Awake()
	if c.Lost() != 0 || time.Since(before) > time.Minute {
		t.Errorf("%s is lost, it is %s", c.Lost(), before)
	}
}
