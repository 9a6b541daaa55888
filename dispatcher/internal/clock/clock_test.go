package clock_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/clock"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
)

// bench is a clock on a wall that the test sets.
type bench struct {
	*clock.Clock

	mu      sync.Mutex
	set     time.Duration // how far the wall was set
	hanging string
	by      time.Time // of the last question
	told    []*clock.Step
	alarms  steptest.Alarms
	stepped time.Duration // by how much it was told to have stepped in all
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{}
	b.Clock = clock.New(func() time.Time { return time.Now().Add(b.read()) })
	b.Start(t.Context(), clock.Watch{
		Hanging: func(_ context.Context, by time.Time) (string, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.by = by
			if b.hanging == "panic" {
				panic("nobody can tell what hangs")
			}
			return b.hanging, nil
		},
		Told:    func(step *clock.Step) { b.mu.Lock(); defer b.mu.Unlock(); b.told = append(b.told, step) },
		Stepped: func(by time.Duration) { b.mu.Lock(); defer b.mu.Unlock(); b.stepped += by },
		Logger:  slog.New(slog.DiscardHandler),
		Ward:    &quarantine.Ward{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alarm: b.alarms.Raise},
	})
	t.Cleanup(b.Stop)
	return b
}

func (b *bench) read() time.Duration { b.mu.Lock(); defer b.mu.Unlock(); return b.set }

func (b *bench) wall(set time.Duration, hanging string) {
	b.mu.Lock()
	b.set, b.hanging = set, hanging
	b.mu.Unlock()
	time.Sleep(1500 * time.Millisecond) // a look
	synctest.Wait()
}

// off is how far headquarters' time is from where no step would have left it.
func (b *bench) off() time.Duration { return b.Now().Sub(b.Steady()) }

func (b *bench) says() []*clock.Step {
	b.mu.Lock()
	defer b.mu.Unlock()
	told := b.told
	b.told = nil
	return told
}

func TestAStepWaitsForWhatHangsOnTheTime(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 26 * time.Hour, -26 * time.Hour, 1100 * time.Millisecond, -2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			b.wall(by, "run r is before its barrier")
			if got := b.off(); got != 0 {
				t.Errorf("by %s: headquarters' time stepped by %s under a run", by, got)
			}
			told := b.says()
			if got := b.by.Sub(b.Now()); got > min(by, 0) || got < min(by, 0)-time.Second {
				t.Errorf("by %s: asked for what is not due by a time that is ahead by %s", by, got)
			}
			if len(told) != 1 || told[0] == nil || told[0].By != by || told[0].Long || told[0].Stays || b.Step() == nil {
				t.Fatalf("by %s: told %v", by, told)
			}
			b.wall(by, "")
			if got := b.off(); got != by {
				t.Errorf("by %s: stepped by %s when nothing hung on it", by, got)
			}
			if told := b.says(); len(told) != 1 || told[0] != nil || b.Step() != nil || b.stepped != by {
				t.Errorf("by %s: told %v and %s at the end", by, told, b.stepped)
			}
		})
	}
}

func TestAStepWithNothingThatHangsIsTakenOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.wall(time.Hour, "")
		if got := b.off(); got != time.Hour || len(b.says()) != 0 {
			t.Errorf("stepped by %s", got)
		}
		b.wall(time.Hour+500*time.Millisecond, "") // too little to be told, and followed
		if got := b.off(); got != time.Hour+500*time.Millisecond || len(b.says()) != 0 {
			t.Errorf("stepped by %s", got)
		}
	})
}

func TestLittleIsNotToldAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.wall(-900*time.Millisecond, "something")
		if got := b.off(); got != 0 || len(b.says()) != 0 || b.Step() != nil {
			t.Errorf("stepped by %s", got)
		}
		b.wall(50*time.Millisecond, "")
		if got := b.off(); got != 0 || len(b.says()) != 0 {
			t.Errorf("stepped by %s, which two readings may differ by themselves", got)
		}
	})
}

func TestAWallThatComesBackIsNoStepAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.wall(time.Hour, "something")
		b.wall(-26*time.Hour, "something")
		if told := b.says(); len(told) != 2 || told[1] == nil || told[1].By != -26*time.Hour {
			t.Errorf("told %v", told)
		}
		b.wall(0, "something")
		if told := b.says(); len(told) != 1 || told[0] != nil || b.off() != 0 {
			t.Errorf("told %v, stepped by %s", told, b.off())
		}
	})
}

func TestAStepThatWaitsLongIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.wall(time.Hour, "something")
		time.Sleep(9 * time.Minute)
		if told := b.says(); len(told) != 1 {
			t.Errorf("told %v", told)
		}
		time.Sleep(5 * time.Minute)
		if told := b.says(); len(told) != 1 || !told[0].Long || told[0].Stays {
			t.Errorf("told %v", told)
		}
	})
}

func TestAStepOfTwoDaysStays(t *testing.T) {
	for _, by := range []time.Duration{48 * time.Hour, -48 * time.Hour, 290 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			b.wall(by, "")
			told := b.says()
			if len(told) != 1 || told[0] == nil || !told[0].Stays || !told[0].Long || b.off() != 0 {
				t.Errorf("told %v, stepped by %s", told, b.off())
			}
			b.wall(time.Hour, "")
			if told := b.says(); len(told) != 1 || told[0] != nil || b.off() != time.Hour {
				t.Errorf("told %v, stepped by %s", told, b.off())
			}
		})
	}
}

// TestWhoHoldsTheTimeIsWaitedFor: a deadline that is reckoned before a step is
// committed before it too, and then hangs on the time.
func TestWhoHoldsTheTimeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		release := b.Hold()
		b.wall(time.Hour, "")
		if got := b.off(); got != 0 {
			t.Fatalf("stepped by %s while it was held", got)
		}
		b.mu.Lock()
		b.hanging = "a run that was committed under the hold"
		b.mu.Unlock()
		release()
		b.wall(time.Hour, b.hanging)
		if got := b.off(); got != 0 {
			t.Errorf("stepped by %s under what was committed", got)
		}
	})
}

// TestALookThatPanicsIsToldAndNotTheLast.
func TestALookThatPanicsIsToldAndNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.wall(time.Hour, "panic")
		if told := b.alarms.Told(); told != "step_panicked the look at the clock: headquarters panicked: nobody can tell what hangs" || b.off() != 0 {
			t.Errorf("stepped by %s, alarms %s", b.off(), told)
		}
		b.wall(time.Hour, "")
		if got := b.off(); got != time.Hour {
			t.Errorf("stepped by %s after it", got)
		}
	})
}

func TestStopMayComeTwiceOrBeforeStart(t *testing.T) {
	c := clock.New(time.Now)
	c.Stop()
	c.Look(t.Context())
	c.Stop()
	if off := time.Since(c.Now()); off.Abs() > time.Minute {
		t.Errorf("it is off by %s", off)
	}
}
