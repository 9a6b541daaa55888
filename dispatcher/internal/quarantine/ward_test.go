package quarantine_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
)

func TestAWardKeepsAPanicInAndTellsOncePerSubjectAndMinute(t *testing.T) {
	t.Parallel()
	now := when
	var log bytes.Buffer
	var alarms []string
	w := &quarantine.Ward{Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now },
		Alarm: func(kind, subject string, trouble error) {
			alarms = append(alarms, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
		}}
	var nothing map[string]int
	break1 := func() error { nothing["x"] = 1; return nil }
	for range 3 {
		err := w.Do(quarantine.AlarmPanicked, "A", break1)
		var p *quarantine.Panic
		if !errors.As(err, &p) || !quarantine.Broke(err) || !bytes.Contains(p.Stack, []byte("ward_test.go")) || strings.Contains(err.Error(), "ward_test.go") {
			t.Fatalf("got %v", err)
		}
	}
	_ = w.Do(quarantine.AlarmPanicked, "B", break1)
	_ = w.Do(quarantine.AlarmStep, "A", func() error { return fmt.Errorf("cannot write: %w: it panicked\nstack", store.ErrBroken) })
	now = now.Add(time.Minute)
	_ = w.Do(quarantine.AlarmPanicked, "A", break1)
	const panicked = "headquarters panicked: assignment to entry in nil map"
	want := []string{"message_panicked A: " + panicked, "message_panicked B: " + panicked,
		"step_panicked A: cannot write: operation broke: it panicked", "message_panicked A: " + panicked}
	if fmt.Sprint(alarms) != fmt.Sprint(want) {
		t.Errorf("alarms\n%q\n%q", alarms, want)
	}
	text := log.String()
	if strings.Count(text, "[running]") != 2 || strings.Count(text, "ward_test.go") < 2 || strings.Count(text, "stack=stack") != 1 || !strings.Contains(text, "left_out=2") {
		t.Errorf("the log has not one stack a kind and minute, or does not count: %s", text)
	}
}

func TestAWardPassesOnWhatIsNoFaultOfItsOwn(t *testing.T) {
	t.Parallel()
	said := errors.New("the disk is full")
	w := &quarantine.Ward{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alarm: func(string, string, error) { t.Error("an alarm") }}
	if err := w.Do(quarantine.AlarmStep, "A", func() error { return said }); !errors.Is(err, said) || quarantine.Broke(err) {
		t.Errorf("got %v", err)
	}
	if err := w.Do(quarantine.AlarmStep, "A", func() error { return nil }); err != nil || quarantine.Broke(nil) {
		t.Errorf("got %v", err)
	}
	var none *quarantine.Ward
	if err := none.Do(quarantine.AlarmStep, "A", func() error { panic("x") }); !quarantine.Broke(err) {
		t.Errorf("no ward: %v", err)
	}
}

func TestAFollowerOfTheStoreThatPanicsStopsNoOther(t *testing.T) {
	t.Parallel()
	var alarms []string
	w := &quarantine.Ward{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alarm: func(kind, subject string, trouble error) {
		alarms = append(alarms, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
		panic("and nobody can say so")
	}}
	var first, last []string
	follow := func(seen *[]string, breaks string) func([]store.Change) {
		return func(changes []store.Change) {
			if changes[0].RunID == breaks {
				panic("nobody can follow that")
			}
			*seen = append(*seen, changes[0].RunID)
		}
	}
	b := steptest.New(t, w.Observer("the first", follow(&first, "r2")), w.Observer("the last", follow(&last, "")))
	for _, run := range []string{"r1", "r2", "r3"} {
		b.Create(run, 1, steptest.Policy())
	}
	b.Close() // returns after the last call
	if fmt.Sprint(first, last) != "[r1 r3] [r1 r2 r3]" {
		t.Errorf("they saw %v and %v", first, last)
	}
	if want := "[step_panicked what the first is told of changes of run r2: headquarters panicked: nobody can follow that]"; fmt.Sprint(alarms) != want {
		t.Errorf("alarms %q", alarms)
	}
}

func TestALoopGoesOnAfterATurnThatPanics(t *testing.T) {
	t.Parallel()
	var alarms []string
	w := &quarantine.Ward{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alarm: func(kind, subject string, trouble error) {
		alarms = append(alarms, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
	}}
	turn := func(wait time.Duration) time.Duration {
		return w.Turn("the loop", time.Second, func() time.Duration {
			if wait < 0 {
				panic("nobody can wait so long")
			}
			return wait
		})
	}
	if got := []time.Duration{turn(0), turn(-1), turn(time.Hour)}; fmt.Sprint(got) != "[0s 1s 1h0m0s]" {
		t.Errorf("it waits %v", got)
	}
	if want := "[step_panicked the loop: headquarters panicked: nobody can wait so long]"; fmt.Sprint(alarms) != want {
		t.Errorf("alarms %q", alarms)
	}
}
