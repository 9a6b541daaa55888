//go:build !windows

package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/edge-agent/internal/executor"
	"muster/internal/protocol"
)

func shell(script string) executor.Program {
	return executor.Program{Argv: []string{"/bin/sh", "-c", script}}
}

func order(t *testing.T) executor.Order {
	return executor.Order{TaskID: strings.ReplaceAll(t.Name(), "/", "."), Attempt: 2, StoreID: "007", TerminalID: "pos-1",
		Input: json.RawMessage(`{"n":9007199254740993}`), ScheduledFor: time.Date(2026, 9, 17, 7, 30, 0, 0, time.FixedZone("", 8*3600))}
}

func TestProgramReadsInputWritesOutputAndSeesItsTask(t *testing.T) {
	t.Parallel()
	o := order(t)
	out, err := shell(`cat; echo " $MUSTER_TASK_ID $MUSTER_ATTEMPT $MUSTER_STORE_ID $MUSTER_TERMINAL_ID $MUSTER_SCHEDULED_FOR"; echo note >&2`).Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"n":9007199254740993} ` + o.TaskID + " 2 007 pos-1 2026-09-17T07:30:00+08:00\n"
	if string(out.Result) != want || out.Tail != "note\n" || out.ExitCode == nil || *out.ExitCode != 0 {
		t.Errorf("got %q, tail %q, code %v", out.Result, out.Tail, out.ExitCode)
	}
}

func TestProgramThatReadsNothingIsFine(t *testing.T) {
	t.Parallel()
	o := order(t)
	o.Input = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	out, err := shell(`echo '{}'`).Run(t.Context(), o)
	if err != nil || string(out.Result) != "{}\n" {
		t.Errorf("got %q, %v", out.Result, err)
	}
}

func TestProgramFailureKeepsCodeAndTail(t *testing.T) {
	t.Parallel()
	out, err := shell(`i=0; while [ $i -lt 2000 ]; do echo "line $i 中文" >&2; i=$((i+1)); done; printf '\377' >&2; exit 3`).Run(t.Context(), order(t))
	var detailed *executor.Error
	if !errors.As(err, &detailed) || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("got %v", err)
	}
	if out.ExitCode == nil || *out.ExitCode != 3 {
		t.Errorf("code %v", out.ExitCode)
	}
	if len(out.Tail) > protocol.MaxOutputTailBytes || !utf8.ValidString(out.Tail) || !strings.HasSuffix(out.Tail, "line 1999 中文\n?") {
		t.Errorf("tail of %d bytes: ...%q", len(out.Tail), out.Tail[max(0, len(out.Tail)-40):])
	}
	if detailed.Detail != out.Tail {
		t.Error("the detail is not the tail")
	}
}

func TestProgramThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := executor.Program{Argv: []string{"/no/such/program"}}.Run(t.Context(), order(t))
	if err == nil || !strings.Contains(err.Error(), "cannot start /no/such/program") {
		t.Errorf("got %v", err)
	}
}

func TestProgramOutputIsBoundedNotCut(t *testing.T) {
	t.Parallel()
	p := shell(`yes '{"a":1}'`)
	p.MaxOutputBytes = 10_000
	_, err := p.Run(t.Context(), order(t))
	if !errors.Is(err, executor.ErrOutputTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestTheWholeTreeEnds(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"obeys":                      `%WAIT%`,
		"ignores TERM":               `trap '' TERM; %WAIT%`,
		"grandchild ignores TERM":    `(trap '' TERM; %WAIT%) & wait`,
		"grandchild left the group":  `export W='%WAIT%'; setsid sh -c "trap '' TERM; eval \"\$W\"" & wait`,
		"grandchild holds the pipes": `(trap '' TERM; %WAIT%) & exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "grandchild left the group" && runtime.GOOS != "linux" {
				t.Skip("only Linux lets a process that left its group be found")
			}
			alive := filepath.Join(t.TempDir(), "alive")
			// It would end by itself, so that a failure does not hang.
			wait := `i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo x >> ` + alive + `; sleep 0.05; done`
			cause := errors.New("time limit")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				for { // once the innermost is at work
					if info, err := os.Stat(alive); err == nil && info.Size() > 4 {
						cancel(cause)
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
			began := time.Now()
			_, err := shell(strings.ReplaceAll(script, "%WAIT%", wait)).Run(ctx, order(t))
			if name != "grandchild holds the pipes" && !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("it took %v", took)
			}
			before, err := os.Stat(alive)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond) // six rounds of a loop that still ran
			after, err := os.Stat(alive)
			if err != nil {
				t.Fatal(err)
			}
			if before.Size() != after.Size() {
				t.Error("something is still running")
			}
		})
	}
}

func TestEndedContextStartsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	trace := filepath.Join(t.TempDir(), "ran")
	if _, err := shell("touch "+trace).Run(ctx, order(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("it ran")
	}
}
