//go:build !windows

package executor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/executor"
)

// onceReady calls do when the file is there.
func onceReady(ctx context.Context, file string, do func()) {
	for ctx.Err() == nil {
		if _, err := os.Stat(file); err == nil {
			do()
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestAProgramIsAskedToEndBeforeItIsKilled, and may say a last word.
func TestAProgramIsAskedToEndBeforeItIsKilled(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	cause := errors.New("time limit")
	ctx, cancel := context.WithCancelCause(t.Context())
	go onceReady(t.Context(), ready, func() { cancel(cause) })
	out, err := shell(`trap 'echo bye >&2; exit 7' TERM; touch `+ready+`; i=0; while [ $i -lt 400 ]; do i=$((i+1)); sleep 0.05; done`).Run(ctx, order(t))
	if !errors.Is(err, cause) || out.ExitCode == nil || *out.ExitCode != 7 || !strings.HasSuffix(out.Tail, "bye\n") {
		t.Errorf("ended with code %v, tail %q, %v", out.ExitCode, out.Tail, err)
	}
}

// TestLeftoversAreThoseOfTheVeryAttempt: attempt 1 is not attempt 12, and one of
// another terminal of this machine is not touched.
func TestLeftoversAreThoseOfTheVeryAttempt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux finds what an agent left behind")
	}
	ready := filepath.Join(t.TempDir(), "ready")
	mine := order(t)
	mine.Attempt = 12
	left := make(chan int, 1)
	go onceReady(t.Context(), ready, func() {
		for _, change := range []func(*executor.Order){
			func(o *executor.Order) { o.Attempt = 1 },
			func(o *executor.Order) { o.TaskID += "x" },
			func(o *executor.Order) { o.TaskID = o.TaskID[:5] },
			func(o *executor.Order) { o.TerminalID = "pos-2" },
			func(o *executor.Order) { o.StoreID = "008" },
			func(o *executor.Order) { o.Trial = "17" },
		} {
			other := mine
			change(&other)
			if n := executor.KillLeftovers(other); n != 0 {
				t.Errorf("%d killed as leftovers of %+v", n, other)
			}
		}
		left <- executor.KillLeftovers(mine)
	})
	out, err := shell(`touch `+ready+`; i=0; while [ $i -lt 400 ]; do i=$((i+1)); sleep 0.05; done; echo '{}'`).Run(t.Context(), mine)
	if err == nil || out.ExitCode != nil {
		t.Errorf("it outlived its end: %+v, %v", out, err)
	}
	select {
	case n := <-left:
		if n == 0 {
			t.Error("none was killed")
		}
	case <-t.Context().Done():
	}
}

// TestAGoodExitCounts: what still holds its pipes is ended, and spoils nothing.
func TestAGoodExitCounts(t *testing.T) {
	t.Parallel()
	began := time.Now()
	out, err := shell(`echo '{"n":1}'; sleep 30 & exit 0`).Run(t.Context(), order(t))
	if err != nil || string(out.Result) != "{\"n\":1}\n" || out.ExitCode == nil || *out.ExitCode != 0 {
		t.Errorf("got %q, code %v, %v", out.Result, out.ExitCode, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
