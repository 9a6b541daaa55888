package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"muster/edge-agent/internal/executor"
)

func TestFuncGetsInputAndMoment(t *testing.T) {
	t.Parallel()
	ordered := time.Date(2026, 9, 17, 7, 30, 0, 0, time.UTC)
	f := executor.Func(func(_ context.Context, input json.RawMessage, asOf time.Time) (json.RawMessage, error) {
		if string(input) != `{"a":1}` || !asOf.Equal(ordered) {
			t.Errorf("got %s as of %v", input, asOf)
		}
		return json.RawMessage(`{}`), nil
	})
	out, err := f.Run(t.Context(), executor.Order{Input: json.RawMessage(`{"a":1}`), ScheduledFor: ordered})
	if err != nil || string(out.Result) != `{}` {
		t.Errorf("got %s, %v", out.Result, err)
	}
}

func TestFuncPanicIsAnErrorWithItsStack(t *testing.T) {
	t.Parallel()
	f := executor.Func(func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) { panic("boom") })
	_, err := f.Run(t.Context(), executor.Order{})
	var detailed *executor.Error
	if !errors.As(err, &detailed) || !strings.Contains(detailed.Detail, "executor_test.go") {
		t.Errorf("got %v", err)
	}
}

func TestFuncThatWillNotStopIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		release := make(chan struct{})
		f := executor.Func(func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
			<-release
			return nil, nil
		})
		cancel(cause)
		began := time.Now()
		if _, err := f.Run(ctx, executor.Order{}); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		close(release)
	})
}

func TestCleanUTF8NeverGrows(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain 中文": "plain 中文", "\xff\xfe": "??", "a\x00b": "a?b", "\xe4\xb8": "??", "\ufffd": "\ufffd",
	} {
		if got := executor.CleanUTF8(in); got != want || !utf8.ValidString(got) {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
