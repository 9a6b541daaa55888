package intake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestAReceiptNamesWhatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		result := `{ "lines":9007199254740993, "ratio":1.0 }`
		payload := fmt.Sprintf(`{"taskId":"r-S000","attempt":1,"outcome":"succeeded","result":%s,"sha256":%q,"executed":true}`, result, digest(result))
		d.sendRaw(0, []byte(payload))
		d.expect("accepted", over(task.Succeeded, 1))
		o := d.Broker.Orders(protocol.OrderReceipt)[0]
		if o.Order.TaskID != "r-S000" || o.Order.Attempt != 1 || o.Order.SHA256 != digest(result) || o.Address.Terminal != "pos" {
			t.Errorf("receipt %+v", o.Order)
		}
		stored, err := d.Store.GetResult(t.Context(), "r-S000", 1)
		if err != nil || string(stored.Result) != result || stored.SHA256 != digest(result) {
			t.Errorf("stored %q, %v", stored.Result, err)
		}
	})
}

func TestTheSameAnswerGetsTheSameReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []protocol.Result{success(0, 1, `{"lines":1}`), success(0, 1, `{"rows":1}`), failure(0, 1, protocol.CodeExecution)} {
			d := open(t, wide())
			d.run(1)
			for range 3 {
				d.send(0, m)
			}
			synctest.Wait()
			all := d.Broker.Orders(protocol.OrderReceipt)
			if len(all) != 3 {
				t.Fatalf("%d receipts", len(all))
			}
			for _, s := range all[1:] {
				s.Order.Meta, all[0].Order.Meta = protocol.Meta{}, protocol.Meta{}
				if fmt.Sprint(*s.Order.Accepted, s.Order.Code, s.Order.Message, s.Order.Path) !=
					fmt.Sprint(*all[0].Order.Accepted, all[0].Order.Code, all[0].Order.Message, all[0].Order.Path) {
					t.Errorf("receipts %+v and %+v", all[0].Order, s.Order)
				}
			}
			if got := d.Stats(); got.Duplicate != 2 || got.Accepted+got.Invalid != 1 {
				t.Errorf("counted %+v", got)
			}
			attempts, err := d.Store.ListAttempts(t.Context(), "r-S000")
			if err != nil || len(attempts) != 1 {
				t.Errorf("%d execution records, %v", len(attempts), err)
			}
		}
	})
}

// TestTheSameAnswerOfAnotherTerminalIsNotTaken: it is the answer of whom the attempt
// was granted to.
func TestTheSameAnswerOfAnotherTerminalIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		m := success(0, 1, `{"lines":1}`)
		d.send(0, m)
		d.expect("accepted", over(task.Succeeded, 1))
		other := steptest.From(0, protocol.KindResult)
		other.Terminal = "pos-2"
		if err := d.HandleResult(t.Context(), other, steptest.Message(m)); err != nil {
			t.Error(err)
		}
		d.expect("refused SETTLED", over(task.Succeeded, 1))
	})
}

func TestAnInvalidResultIsRefusedByFieldAndKept(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	cases := []struct{ name, payload, receipt string }{
		{"other field names", `"result":{"rows":7}`, "refused INVALID_RESULT /lines"},
		{"wrong type", `"result":{"lines":"7"}`, "refused INVALID_RESULT /lines"},
		{"out of range", `"result":{"lines":1,"ratio":1e400}`, "refused INVALID_RESULT /ratio"},
		{"a key twice", `"result":{"lines":1,"lines":2}`, "refused INVALID_RESULT"},
		{"a key in two cases", `"result":{"lines":1,"LINES":2}`, "refused INVALID_RESULT"},
		{"too deep", `"result":` + deep, "refused INVALID_RESULT"},
		{"no result", `"exitCode":0`, "refused INVALID_RESULT"},
		{"cut off", `"result":{"lines":`, "refused INVALID_RESULT"},
		{"a field of another type", `"durationMs":"long"`, "refused INVALID_RESULT /durationMs"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, wide())
				d.run(1)
				value := strings.TrimPrefix(c.payload, `"result":`)
				payload := fmt.Sprintf(`{"taskId":"r-S000","attempt":1,"outcome":"succeeded","sha256":%q,%s`, digest(value), c.payload)
				if c.name != "cut off" {
					payload += "}"
				}
				d.sendRaw(0, []byte(payload))
				got := d.lastReceipt()
				if !strings.HasPrefix(got, c.receipt) {
					t.Errorf("receipt: %s, want %s", got, c.receipt)
				}
				now := d.Task("r-S000")
				if now.State != awaiting(1) || now.LastCode != protocol.CodeInvalidResult {
					t.Errorf("state %+v", now)
				}
				kept, err := d.Store.ListRejected(t.Context(), "r-S000")
				if err != nil || len(kept) != 1 || string(kept[0].Payload) != payload || kept[0].Failure == nil || kept[0].Failure.Message == "" {
					t.Errorf("kept %+v, %v", kept, err)
				}
				d.sendRaw(0, []byte(payload))
				if again := d.lastReceipt(); again != got || d.Stats().Duplicate != 1 {
					t.Errorf("again: %s", again)
				}
			})
		})
	}
}

func TestWhatNamesNoAttemptIsCountedAndAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		for _, payload := range []string{"", "no json", `{"attempt":1}`, `{"taskId":"r-S000"}`, `{"taskId":"a/b","attempt":1}`,
			`{"taskId":"r-S000","attempt":-1}`, "\xff\xfe{", `[1]`, `{"x":{"taskId":"r-S000","attempt":1}`} {
			d.sendRaw(0, []byte(payload))
		}
		if got := d.Stats().Unreadable; got != 9 {
			t.Errorf("%d counted", got)
		}
		d.expect("none", running(1))
	})
}

func TestABadHashIsRefusedAndARightCopyIsStaleThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		m := success(0, 1, `{"lines":1}`)
		m.SHA256 = digest("something else")
		d.send(0, m)
		d.expect("refused BAD_HASH", awaiting(1))
		if got := d.Broker.Orders(protocol.OrderReceipt)[0].Order.SHA256; got != m.SHA256 {
			t.Errorf("the receipt names %s, the terminal knows its copy as %s", got, m.SHA256)
		}
	})
}

func TestHowFailedAnswersEndTheirAttempt(t *testing.T) {
	cases := []struct {
		code      protocol.Code
		attempts  int
		interrupt bool
		want      task.State
		last      protocol.Code
		reason    task.Reason
	}{
		{protocol.CodeExecution, 2, false, awaiting(1), protocol.CodeExecution, task.ReasonExecutionError},
		{protocol.CodeExecution, 1, false, over(task.Failed, 1), protocol.CodeExecution, task.ReasonExecutionError},
		{protocol.CodeTimeLimit, 2, false, awaiting(1), protocol.CodeTimeLimit, task.ReasonExecutionError},
		{protocol.CodeInterrupted, 2, false, over(task.Failed, 1), protocol.CodeInterrupted, task.ReasonExecutionError},
		{protocol.CodeInterrupted, 2, true, awaiting(1), protocol.CodeInterrupted, task.ReasonExecutionError},
		{protocol.CodeRefused, 2, true, over(task.Failed, 1), protocol.CodeRefused, task.ReasonRefusedByTerminal},
		{"SETTLED", 2, true, awaiting(1), protocol.CodeExecution, task.ReasonExecutionError},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.code, c.attempts, c.interrupt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, wide())
				d.run(1, func(p *job.Policy) { p.Attempts, p.RetryInterrupted = c.attempts, c.interrupt })
				d.send(0, failure(0, 1, c.code))
				d.expect("accepted", c.want)
				got := d.Task("r-S000")
				if got.LastCode != c.last || got.Reason != c.reason {
					t.Errorf("code %s reason %s", got.LastCode, got.Reason)
				}
				if wait := time.Until(got.NextAttemptAt); c.want == awaiting(1) && (wait < time.Second || wait > 3*time.Second) {
					t.Errorf("the retry is due in %v, 2 s ± 50 %% configured", wait)
				}
			})
		})
	}
}

func TestAttemptsAreCountedAsExecutions(t *testing.T) {
	for _, attempts := range []int{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, wide())
			d.run(1, func(p *job.Policy) { p.Attempts = attempts })
			executed := 1
			for ; !d.Task("r-S000").State.Settled; executed++ {
				d.send(0, failure(0, executed, protocol.CodeExecution))
				if d.Task("r-S000").State.Settled {
					break
				}
				time.Sleep(time.Minute)
				d.grant(0)
			}
			if executed != attempts {
				t.Errorf("%d executions, %d configured", executed, attempts)
			}
		})
	}
}

func TestAnswersToWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		d.send(0, failure(0, 1, protocol.CodeExecution))
		d.send(0, success(0, 1, `{"lines":5}`)) // the same attempt, another answer
		d.expect("refused STALE", awaiting(1))
		time.Sleep(time.Minute)
		d.grant(0)
		d.send(0, success(0, 1, `{"lines":5}`))
		d.expect("refused STALE", running(2))
		d.send(0, success(0, 3, `{"lines":5}`)) // an attempt that is not granted
		d.expect("refused STALE", running(2))
		d.send(0, success(0, 2, `{"lines":5}`))
		d.expect("accepted", over(task.Succeeded, 2))
		d.send(0, success(0, 1, `{"lines":6}`))
		d.expect("refused SETTLED", over(task.Succeeded, 2))
		d.send(0, success(0, 2, `{"lines":5}`))
		d.expect("accepted", over(task.Succeeded, 2))
		unknown := success(0, 1, `{"lines":5}`)
		unknown.TaskID = "unknown"
		d.send(0, unknown)
		d.expect("refused NOT_FOUND", over(task.Succeeded, 2))
		d.send(1, success(0, 2, `{"lines":5}`)) // from another store
		d.expect("refused NOT_FOUND", over(task.Succeeded, 2))
	})
}

func TestAnotherTerminalCannotAnswerForTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		from := steptest.From(0, protocol.KindResult)
		from.Terminal = "other"
		if err := d.HandleResult(t.Context(), from, steptest.Message(success(0, 1, `{"lines":5}`))); err != nil {
			t.Fatal(err)
		}
		d.expect("refused STALE", running(1))
	})
}

func TestACancelledAnswerToACancelledTaskIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		if _, _, err := d.Store.Cancel(t.Context(), "r", nil, task.ReasonByUser, "tech", time.Now()); err != nil {
			t.Fatal(err)
		}
		d.send(0, protocol.Result{TaskID: "r-S000", Attempt: 1, Outcome: protocol.AnswerCancelled})
		d.expect("accepted", over(task.Cancelled, 1))
		d.send(0, success(0, 1, `{"lines":1}`))
		d.expect("refused SETTLED", over(task.Cancelled, 1))
	})
}

func TestALateAnswerFollowsThePolicyAndEndsItsAttempt(t *testing.T) {
	cases := []struct {
		policy  job.LatePolicy
		receipt string
		want    task.State
	}{
		{job.AcceptAndRevise, "accepted", over(task.Succeeded, 1)},
		{job.RecordOnly, "accepted", over(task.Failed, 1)},
		{job.Reject, "refused LATE", over(task.Failed, 1)},
	}
	for _, c := range cases {
		t.Run(string(c.policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, wide())
				d.run(1, func(p *job.Policy) { p.Late = c.policy })
				time.Sleep(2 * time.Minute)
				snapshot, err := d.Store.CloseBarrier(t.Context(), "r", time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if err := snapshot.Close(); err != nil {
					t.Fatal(err)
				}
				d.send(0, success(0, 1, `{"lines":5}`))
				d.expect(c.receipt, c.want)
				d.send(0, success(0, 1, `{"lines":5}`))
				if again := d.lastReceipt(); c.policy != job.Reject && again != c.receipt {
					t.Errorf("again: %s", again)
				}
			})
		})
	}
}

func TestAPoisonedResultDoesNotEndHeadquarters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		poisoned := intake.New(intake.Config{Tasks: poisonedTasks{d.Store}, Attempts: d.Store, Jobs: registry(t), Leases: d.leases,
			Orders: d.Sender, Now: time.Now, Logger: d.Logger, InFlight: 1, BurstBytes: 1})
		m := steptest.Message(success(0, 1, `{"lines":1}`))
		if err := poisoned.HandleResult(t.Context(), steptest.From(0, protocol.KindResult), m); err != nil {
			t.Fatal(err)
		}
		d.expect("refused INVALID_RESULT", awaiting(1))
		if poisoned.Stats().Panicked != 1 {
			t.Error("a panic was not counted")
		}
	})
}

func TestAResultOfAJobThatIsGoneStaysWithItsTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		bare := intake.New(intake.Config{Tasks: d.Store, Attempts: d.Store, Jobs: job.NewRegistry(), Leases: d.leases,
			Orders: d.Sender, Now: time.Now, Logger: d.Logger, InFlight: 1, BurstBytes: 1})
		m := steptest.Message(success(0, 1, `{"lines":1}`))
		if err := bare.HandleResult(t.Context(), steptest.From(0, protocol.KindResult), m); err != nil {
			t.Fatal(err)
		}
		d.expect("none", running(1))
		if bare.Stats().Unjudged != 1 {
			t.Error("it was not counted")
		}
	})
}

func TestAStoreThatFailsLeavesTheAnswerUnacknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		d.Bench.Close()
		m := steptest.Message(success(0, 1, `{"lines":1}`))
		if err := d.HandleResult(t.Context(), steptest.From(0, protocol.KindResult), m); err == nil {
			t.Error("an answer that nobody stored was acknowledged")
		}
		if got := d.lastReceipt(); got != "none" {
			t.Errorf("receipt: %s", got)
		}
	})
}

// poisonedTasks says that every task is of the job whose validator panics.
type poisonedTasks struct{ *store.Store }

func (p poisonedTasks) GetTask(ctx context.Context, taskID string) (store.Task, error) {
	t, err := p.Store.GetTask(ctx, taskID)
	t.Type = "poisoned"
	return t, err
}

// TestAHugeDurationIsStoredAsALongOne: milliseconds that no time.Duration holds.
func TestAHugeDurationIsStoredAsALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		m := success(0, 1, `{"lines":1}`)
		m.DurationMs = 9_300_000_000_000
		d.send(0, m)
		d.expect("accepted", over(task.Succeeded, 1))
		attempts, err := d.Store.ListAttempts(t.Context(), "r-S000")
		if err != nil || len(attempts) != 1 || attempts[0].Duration < 24*time.Hour {
			t.Errorf("stored %+v, %v", attempts, err)
		}
	})
}
