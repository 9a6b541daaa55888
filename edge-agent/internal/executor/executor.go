// Package executor does the work of one order: by a function inside the agent
// or by an external program.
//
// It knows no journal, no link and no headquarters; whoever calls it decides
// whether an order may run and what becomes of its output.
package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"muster/internal/protocol"
)

// Order is one granted execution.
type Order struct {
	TaskID       string
	Attempt      int
	StoreID      string
	TerminalID   string
	Trial        string // who tries it out beside the terminal's own work; "": nobody
	Type         string
	Version      int
	Input        json.RawMessage
	ScheduledFor time.Time
}

// Output is what an execution gave. ExitCode and Tail also stand when it
// failed; Result does not.
type Output struct {
	Result   json.RawMessage // one JSON object, as the executor wrote it
	ExitCode *int            // nil: no external program ended by itself
	Tail     string          // the end of its standard error, valid UTF-8
}

// Error is a failure with a detail, such as a stack, for those who repair it.
type Error struct {
	Message string
	Detail  string
}

// Error gives the sentence without the detail.
func (e *Error) Error() string { return e.Message }

// Executor does the work of an order. It returns when the work and every
// process that it started has ended. When ctx is cancelled it ends the work
// and returns soon after. Safe for concurrent use.
type Executor interface {
	Run(ctx context.Context, order Order) (Output, error)
}

// Registry finds the executor of a job version.
type Registry map[protocol.JobVersion]Executor

// Func is work inside the agent: input and the moment that words such as
// "yesterday" refer to, in; a JSON object, out.
type Func func(ctx context.Context, input json.RawMessage, asOf time.Time) (json.RawMessage, error)

// stopGrace bounds how long a function may go on after its end was asked for.
const stopGrace = 10 * time.Second

// Run calls the function. A panic becomes an *Error that carries the stack. A
// function that ignores the end of ctx is left behind after 10 s.
func (f Func) Run(ctx context.Context, order Order) (Output, error) {
	type ended struct {
		result json.RawMessage
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		var e ended
		defer func() {
			if cause := recover(); cause != nil {
				e = ended{err: &Error{Message: fmt.Sprintf("the executor panicked: %v", cause), Detail: string(debug.Stack())}}
			}
			done <- e
		}()
		e.result, e.err = f(ctx, order.Input, order.ScheduledFor)
	}()
	select {
	case e := <-done:
		return Output{Result: e.result}, e.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case e := <-done:
		return Output{Result: e.result}, e.err
	case <-grace.C:
		return Output{}, fmt.Errorf("cannot stop the executor: %w", context.Cause(ctx))
	}
}

// tail keeps the last bytes that are written to it.
type tail struct {
	buf  []byte
	most int
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.most; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String gives valid UTF-8 of at most the limit: foreign bytes become "?", and
// a character cut at the front is left out.
func (t *tail) String() string {
	b := t.buf
	if len(b) == t.most {
		for len(b) > 0 && !utf8.RuneStart(b[0]) {
			b = b[1:]
		}
	}
	return CleanUTF8(string(b))
}

// CleanUTF8 replaces each byte that is not UTF-8, and NUL, by "?", so that the
// text never grows.
func CleanUTF8(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == 0 || (r == utf8.RuneError && size == 1) {
			out = append(out, '?')
			i++
			continue
		}
		out = append(out, s[i:i+size]...)
		i += size
	}
	return string(out)
}
