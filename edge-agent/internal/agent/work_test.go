package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/executor"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestFailedAttemptRunsAgain(t *testing.T) {
	calls := 0
	work := func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
		if calls++; calls == 1 {
			return nil, errors.New("printer on fire")
		}
		return json.RawMessage(`{}`), nil
	}
	inBubble(t, work, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		r := b.result()
		b.wantFailure(r, protocol.CodeExecution)
		// The next offer may come before the receipt.
		b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
		b.receipt(r, true, "")
		b.claims()
		b.grant("t1", 2)
		if r := b.result(); r.Outcome != protocol.AnswerSucceeded || !r.Executed {
			t.Errorf("second attempt %+v", r)
		}
		b.wantMarks("t1/1", "t1/2")
	})
}

func TestNewerGrantIsAnsweredByTheRunningExecution(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		b.grant("t1", 2)
		sleep(11 * time.Second)
		all := drain[protocol.Result](t, b.wire, protocol.KindResult)
		if len(all) == 0 || all[len(all)-1].Attempt != 2 || all[len(all)-1].Executed {
			t.Errorf("results %+v, want the last of attempt 2, not executed", all)
		}
		b.wantMarks("t1/1")
	})
}

// TestTheRunningExecutionKeepsANewerGrantAlive, by a sign at once, since a granted
// attempt must show that it began, and by one in each third of its lease.
func TestTheRunningExecutionKeepsANewerGrantAlive(t *testing.T) {
	inBubble(t, lasting(5*lease), func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		grant := func(attempt int, lease time.Duration) {
			b.order(protocol.Order{Order: protocol.OrderGrant, TaskID: "t1", Attempt: attempt,
				LeaseMs: lease.Milliseconds(), RunTimeoutMs: time.Hour.Milliseconds()})
		}
		wantSign := func(want int) {
			t.Helper()
			said := drain[protocol.Progress](t, b.wire, protocol.KindProgress)
			if len(said) != 1 || said[0].Attempt != want {
				t.Fatalf("signs of life %+v, want one of attempt %d", said, want)
			}
		}
		grant(1, 3*lease)
		sleep(time.Second)
		wantSign(1)
		sleep(lease)
		wantSign(1)
		grant(2, lease)
		wantSign(2)
		for range 5 {
			sleep(lease / 3)
			wantSign(2)
		}
		sleep(3 * lease)
		all := drain[protocol.Result](t, b.wire, protocol.KindResult)
		if len(all) == 0 || all[len(all)-1].Attempt != 2 || all[len(all)-1].Outcome != protocol.AnswerSucceeded {
			t.Errorf("results %+v, want the last of attempt 2", all)
		}
		b.wantMarks("t1/1")
	})
}

// TestAnAttemptThatLastsSaysThatItStarted, after a second, or at once where
// headquarters would take that for silence; and when there is a link again.
func TestAnAttemptThatLastsSaysThatItStarted(t *testing.T) {
	t.Parallel()
	const usual = 45 * time.Second
	for name, c := range map[string]struct {
		lease, barrier time.Duration
		away           bool // until it says so
		after          time.Duration
	}{
		"usually":              {usual, time.Minute, false, time.Second},
		"a lease of 3 s":       {3 * time.Second, time.Minute, false, time.Second},
		"a short lease":        {2999 * time.Millisecond, time.Minute, false, 0},
		"just before barrier":  {usual, 1999 * time.Millisecond, false, 0},
		"behind the barrier":   {usual, -time.Second, false, time.Second},
		"away when it was due": {usual, time.Minute, true, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, lasting(time.Minute), func(t *testing.T, b *bench) {
				b.connect()
				b.offer("t1", func(o *protocol.Offer) { o.Deadline = time.Now().Add(c.barrier).UnixMilli() })
				b.order(protocol.Order{Order: protocol.OrderGrant, TaskID: "t1", Attempt: 1, LeaseMs: c.lease.Milliseconds(), RunTimeoutMs: 60_000})
				if c.away {
					b.agent.Down()
				}
				if c.after > 0 {
					sleep(c.after - time.Millisecond)
					if early := drain[protocol.Progress](t, b.wire, protocol.KindProgress); len(early) > 0 {
						t.Fatalf("said before its time: %+v", early)
					}
				}
				if c.away {
					b.agent.Up()
				}
				sleep(time.Millisecond)
				if said := drain[protocol.Progress](t, b.wire, protocol.KindProgress); len(said) != 1 || said[0].Attempt != 1 {
					t.Errorf("said %+v, want once that attempt 1 lives", said)
				}
			})
		})
	}
}

// unspeakable is an error that cannot say what it is.
type unspeakable struct{ text *string }

func (e unspeakable) Error() string { return *e.text }

// TestAPanicIsAFailureAndTheAgentGoesOn, wherever in an execution it comes.
func TestAPanicIsAFailureAndTheAgentGoesOn(t *testing.T) {
	for name, work := range map[string]executorFunc{
		"in an executor that is no function": func(context.Context, executor.Order) (executor.Output, error) { panic("password=hunter2") },
		"in the judging of what it gave": func(context.Context, executor.Order) (executor.Output, error) {
			return executor.Output{}, unspeakable{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, count, func(t *testing.T, b *bench) {
				b.kill()
				b.jobs[protocol.JobVersion{Type: "break", Version: 1}] = work
				var log bytes.Buffer
				b.log = slog.New(slog.NewTextHandler(&log, nil))
				b.start()
				b.connect()
				b.offer("t1", func(o *protocol.Offer) { o.Type = "break" })
				b.grant("t1", 1)
				r := b.result()
				b.wantFailure(r, protocol.CodeExecution)
				if !r.Executed || r.Attempt != 1 || !strings.Contains(string(r.Error), "panicked") {
					t.Errorf("answered %+v", r)
				}
				b.receipt(r, true, "")
				b.offer("t2")
				b.grant("t2", 1)
				if r := b.result(); r.TaskID != "t2" || r.Outcome != protocol.AnswerSucceeded {
					t.Errorf("then answered %+v", r)
				}
				if said := log.String(); !strings.Contains(said, "work_test.go") || strings.Contains(said+string(r.Error), "hunter2") {
					t.Errorf("the log says: %s", said)
				}
			})
		})
	}
}

func TestWhatTheTerminalCannotDoIsRefusedAloud(t *testing.T) {
	load := 9.0
	for name, change := range map[string]func(*protocol.Offer){
		"type":      func(o *protocol.Offer) { o.Type = "brew_coffee" },
		"version":   func(o *protocol.Offer) { o.TypeVersion = 2 },
		"label":     func(o *protocol.Offer) { o.Requires = []string{"scanner"} },
		"condition": func(*protocol.Offer) {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, count, func(t *testing.T, b *bench) {
				b.kill()
				b.cfg.Measure = func() protocol.Condition { return protocol.Condition{Load: &load} }
				if name == "condition" {
					b.cfg.Refuse.MaxLoad = 4
				}
				b.start()
				b.connect()
				b.offer("t1", change)
				b.wantClaims() // another terminal of the store may know it
				sleep(31 * time.Second)
				b.wantClaims("t1")
				b.grant("t1", 1)
				r := b.result()
				b.wantFailure(r, protocol.CodeRefused)
				if r.Executed {
					t.Error("says it executed")
				}
				b.wantMarks()
			})
		})
	}
}

func TestOnlyOneTaskAtATimeIsClaimedAndRun(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.offer("t2")
		b.offer("t3")
		b.wantClaims("t1")
		sleep(30 * time.Second)
		b.wantClaims("t2") // the first waits at headquarters; it is the next one's turn
		b.grant("t1", 1)
		b.grant("t2", 1) // both were asked for
		b.wantMarks("t1/1")
		sleep(11 * time.Second)
		b.wantMarks("t1/1", "t2/1")
		b.wantClaims()
		sleep(11 * time.Second)
		b.wantClaims("t3")
	})
}

func TestTimeLimitEndsTheWork(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.order(protocol.Order{Order: protocol.OrderGrant, TaskID: "t1", Attempt: 1, LeaseMs: lease.Milliseconds(), RunTimeoutMs: 3000})
		sleep(3 * time.Second)
		r := b.result()
		b.wantFailure(r, protocol.CodeTimeLimit)
		if r.DurationMs != 3000 {
			t.Errorf("it took %d ms", r.DurationMs)
		}
	})
}

func TestExecutorOutputIsCheckedNotCut(t *testing.T) {
	for name, output := range map[string]string{
		"empty":     "",
		"array":     `[1]`,
		"two":       `{}{}`,
		"twice":     `{"a":1,"a":2}`,
		"case":      `{"a":1,"A":2}`,
		"number":    `{"a":1e400}`,
		"not UTF-8": "{\"a\":\"\xff\"}",
		"too large": `{"a":"` + strings.Repeat("x", protocol.MaxResultBytes) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			work := func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
				return json.RawMessage(output), nil
			}
			inBubble(t, work, func(t *testing.T, b *bench) {
				b.connect()
				b.offer("t1")
				b.grant("t1", 1)
				r := b.result()
				b.wantFailure(r, protocol.CodeExecution)
			})
		})
	}
}

func TestPanicBecomesAFailureWithItsStack(t *testing.T) {
	work := func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) { panic("boom") }
	inBubble(t, work, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		r := b.result()
		b.wantFailure(r, protocol.CodeExecution)
		f := decode[protocol.Failure](t, r.Error)
		if !strings.Contains(f.Message, "boom") || !strings.Contains(f.Detail, "work_test.go") {
			t.Errorf("failure %+v", f)
		}
	})
}

func TestFullDiskHoldsNoAnswerBack(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		box := filepath.Join(b.folder, "outbox")
		// A file in the folder's place refuses writes, to root too.
		if err := errors.Join(os.Rename(box, box+".away"), os.WriteFile(box, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		b.grant("t1", 1)
		first := b.result()
		if err := errors.Join(os.Remove(box), os.Rename(box+".away", box)); err != nil {
			t.Fatal(err)
		}
		sleep(30 * time.Second)
		if again := b.result(); again.SHA256 != first.SHA256 || b.answers() != 1 {
			t.Errorf("after the disk was well: %+v, %d kept", again, b.answers())
		}
		b.receipt(first, true, "")
		if b.answers() != 0 {
			t.Error("kept after the receipt")
		}
	})
}

// TestExecutorsSecretsStayAtTheTerminal: whatever an executor prints, its
// password does not leave, nor lie in the outbox.
func TestExecutorsSecretsStayAtTheTerminal(t *testing.T) {
	const secret = "hunter2hunter2"
	for name, work := range map[string]executor.Func{
		"in the result": func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
			return json.RawMessage(`{"password":"` + secret + `","line":"token=` + secret + ` ok","n":1}`), nil
		},
		"in the failure": func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
			return nil, &executor.Error{Message: "cannot log in with password=" + secret, Detail: "api_key: " + secret + "\nbye"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, work, func(t *testing.T, b *bench) {
				b.connect()
				b.offer("t1")
				b.grant("t1", 1)
				r := b.result()
				said := string(r.Result) + string(r.Error) + r.OutputTail
				if strings.Contains(said, secret) || !strings.Contains(said, "[redacted]") {
					t.Errorf("it said %s", said)
				}
				files, err := filepath.Glob(filepath.Join(b.folder, "outbox", "*"))
				if err != nil || len(files) != 1 {
					t.Fatalf("outbox %v, %v", files, err)
				}
				if kept, err := os.ReadFile(files[0]); err != nil || strings.Contains(string(kept), secret) {
					t.Errorf("the outbox holds %s, %v", kept, err)
				}
			})
		})
	}
}
