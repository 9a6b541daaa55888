package ban_test

import (
	"strconv"
	"testing"
	"time"

	"muster/broker/server/ban"
)

func TestTooManyEventsInTheWindowAreBanned(t *testing.T) {
	l := ban.New(3, time.Minute, 5*time.Minute)
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		want  ban.Verdict
	}{
		{0, ban.Free}, {0, ban.Free}, {time.Minute, ban.Free}, // the first two have left the window
		{time.Second, ban.Free}, {time.Second, ban.BannedNow}, {time.Second, ban.Banned},
		{5*time.Minute - 2*time.Second, ban.Banned}, // the ban was not prolonged
		{time.Second, ban.Free}, {0, ban.Free}, {0, ban.BannedNow},
	} {
		now = now.Add(step.after)
		if got := l.Count("a", now); got != step.want {
			t.Errorf("at %v: got %v, want %v", now, got, step.want)
		}
	}
	if !l.Banned("a", now) || l.Banned("a", now.Add(5*time.Minute)) || l.Banned("b", now) {
		t.Error("wrong about who is banned")
	}
	if got := l.Count("b", now); got != ban.Free {
		t.Errorf("another key: %v", got)
	}
}

func TestEventsSpreadOutAreFree(t *testing.T) {
	l := ban.New(3, time.Minute, time.Minute)
	now := time.Now()
	for range 100 {
		if got := l.Count("a", now); got != ban.Free {
			t.Fatalf("got %v", got)
		}
		now = now.Add(31 * time.Second)
	}
}

func TestMemoryIsBoundedAndBansOutliveAFlood(t *testing.T) {
	l := ban.New(2, time.Minute, time.Hour)
	now := time.Now()
	l.Count("mallory", now)
	l.Count("mallory", now)
	for n := range 200_000 {
		l.Count(strconv.Itoa(n), now)
	}
	if l.Len() > 20_000 {
		t.Errorf("%d keys are remembered", l.Len())
	}
	if !l.Banned("mallory", now) {
		t.Error("a flood of other keys lifted a ban")
	}
}
