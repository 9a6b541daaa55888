package quarantine

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/logs"
)

// The kinds of the alarms about a panic.
const (
	// AlarmPanicked: somebody's message made headquarters panic. It was not taken
	// in; what a terminal keeps comes again.
	AlarmPanicked = "message_panicked"
	// AlarmStep: a step panicked over one piece of its own work. All else goes on.
	AlarmStep = "step_panicked"
)

// Panic is a panic as an error. Stack is that of the goroutine where it happened.
type Panic struct {
	Cause any
	Stack []byte
}

// Error is what was panicked with, without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("headquarters panicked: %v", p.Cause) }

// Ward keeps a panic inside the piece of work that it happened in, and tells of
// it: the log has a line and operators an alarm, of one subject at most once a
// minute, and the log a stack as often of each kind. Safe for concurrent use; a nil one keeps panics in and tells nobody.
type Ward struct {
	Logger *slog.Logger
	Now    func() time.Time
	// Alarm is called from wherever the panic was; it must not block.
	Alarm func(kind, subject string, trouble error)

	told, stacks logs.Sparing // by kind and subject, and by kind: stacks are large
}

// Do does the work and returns its error, a *Panic if it panicked. The subject
// says whose message it was, or which piece of work. A write that broke by itself
// (store.ErrBroken) is told of like a panic. What the work had locked and not
// deferred to unlock stays locked.
func (w *Ward) Do(kind, subject string, work func() error) (err error) {
	defer func() { err = w.end(kind, subject, recover(), err) }()
	return work()
}

// end is how work ended that panicked for the cause, or returned err.
func (w *Ward) end(kind, subject string, cause any, err error) error {
	if cause != nil {
		err = &Panic{cause, debug.Stack()}
	}
	if Broke(err) {
		w.tell(kind, subject, err)
	}
	return err
}

// Turn does one turn of a loop and returns how long the loop may wait for its next
// one, as the turn says. After a panic that is again: the loop goes on.
func (w *Ward) Turn(loop string, again time.Duration, turn func() time.Duration) (wait time.Duration) {
	if err := w.Do(AlarmStep, loop, func() error { wait = turn(); return nil }); err != nil {
		return again
	}
	return wait
}

// Observer makes a follower of the store's changes that others go on after if it
// panics: what it did not come to of these changes is lost to it, until it looks at
// the store again. step names it.
func (w *Ward) Observer(step string, changed func([]store.Change)) func([]store.Change) {
	return func(changes []store.Change) {
		defer func() {
			if cause := recover(); cause != nil {
				subject := "what " + step + " is told of changes"
				if len(changes) > 0 {
					subject += " of run " + changes[0].RunID
				}
				_ = w.end(AlarmStep, subject, cause, nil)
			}
		}()
		changed(changes)
	}
}

// Broke says whether an error is headquarters' own fault: a panic, or a write that
// broke by itself.
func Broke(err error) bool {
	_, panicked := errors.AsType[*Panic](err) // without an allocation: most errors are nil
	return panicked || errors.Is(err, store.ErrBroken)
}

func (w *Ward) tell(kind, subject string, trouble error) {
	if w == nil {
		return
	}
	now := w.Now()
	left, due := w.told.Due(kind+" "+subject, now)
	if !due {
		return
	}
	line, stack, _ := strings.Cut(trouble.Error(), "\n") // a write that panicked brings its stack along
	var p *Panic
	if errors.As(trouble, &p) {
		stack = string(p.Stack)
	}
	if _, due := w.stacks.Due(kind, now); !due {
		stack = "left out: one was told within the minute"
	}
	w.Logger.Error("headquarters broke on something and goes on without it", "kind", kind, "subject", subject, "error", line, "stack", stack, "left_out", left)
	defer func() {
		if cause := recover(); cause != nil {
			w.Logger.Error("an alarm about what headquarters broke on made it panic too", "kind", kind, "subject", subject, "panic", fmt.Sprint(cause))
		}
	}()
	if w.Alarm != nil {
		w.Alarm(kind, subject, errors.New(line))
	}
}
