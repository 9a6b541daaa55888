package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/edge-agent/internal/journal"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestExecutionThatWasCutOffIsInterruptedAndNotRepeated(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		b.kill()
		drain[protocol.Result](t, b.wire, protocol.KindResult)
		b.start()
		b.agent.Up()
		r := b.result()
		b.wantFailure(r, protocol.CodeInterrupted)
		if !r.Executed || r.StartedAt == 0 {
			t.Errorf("result %+v", r)
		}
		b.sync(mine("t1", 1))
		b.grant("t1", 1)
		b.offer("t1")
		b.grant("t1", 1)
		b.wantMarks("t1/1")
		b.receipt(r, true, "")
		b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
		b.grant("t1", 2) // headquarters' policy allowed a new attempt
		b.wantMarks("t1/1", "t1/2")
	})
}

// TestWhatAnEarlierAgentBeganIsInterrupted: it journalled one phase more.
func TestWhatAnEarlierAgentBeganIsInterrupted(t *testing.T) { // I3
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.kill()
		book, err := journal.Open(b.folder, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(book.Put(journal.Entry{TaskID: "t1", Phase: journal.PhaseStarted, Attempt: 1}), book.Close()); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.connect(mine("t1", 1))
		b.wantFailure(b.result(), protocol.CodeInterrupted)
		b.offer("t1")
		b.grant("t1", 1)
		b.wantMarks()
	})
}

func TestAnswerOutlivesTheAgent(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		first := b.result()
		for range 3 {
			b.kill()
			b.start()
			b.agent.Up()
			if r := b.result(); r.SHA256 != first.SHA256 || string(r.Result) != string(first.Result) || !r.Executed {
				t.Fatalf("sent %+v, want %+v", r, first)
			}
		}
		b.receipt(first, true, "")
		b.kill()
		b.start()
		b.connect()
		if n := len(drain[protocol.Result](t, b.wire, protocol.KindResult)); n != 0 {
			t.Errorf("%d results after the receipt", n)
		}
		b.wantMarks("t1/1")
	})
}

func TestLostGrantIsAskedForAgain(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.wantClaims("t1")
		b.kill() // the grant goes into the void
		b.start()
		b.connect(mine("t1", 1))
		b.wantClaims()
		b.offer("t1")
		b.wantClaims("t1") // the claim was journalled, so the attempt surely never ran
		b.grant("t1", 1)
		b.result()
		b.wantMarks("t1/1")
	})
}

func TestLostJournalNeverRunsAnAttemptAgain(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		b.kill()
		if err := os.Remove(filepath.Join(b.folder, "journal.log")); err != nil {
			t.Fatal(err)
		}
		drain[protocol.Claim](t, b.wire, protocol.KindClaim)
		b.start()
		b.agent.Up()
		b.offer("t1")
		b.wantClaims() // not before headquarters said what it believes
		b.sync(mine("t1", 1))
		r := b.result()
		b.wantFailure(r, protocol.CodeInterrupted)
		if r.Executed {
			t.Error("claims to know that it executed")
		}
		b.grant("t1", 1)
		b.wantMarks("t1/1")
	})
}

func TestDamagedGrantLineNeverRunsTheAttemptAgain(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		b.kill()
		path := filepath.Join(b.folder, "journal.log")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-20] ^= 1 // in the last line, which says "granted"
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.connect(mine("t1", 1))
		r := b.result()
		b.wantFailure(r, protocol.CodeInterrupted)
		b.offer("t1")
		b.grant("t1", 1)
		b.wantMarks("t1/1")
	})
}

func TestDamagedAnswerIsSaidToBeLost(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		b.result()
		b.kill()
		files, err := filepath.Glob(filepath.Join(b.folder, "outbox", "*.answer"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.Truncate(files[0], 0); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.agent.Up()
		r := b.result()
		b.wantFailure(r, protocol.CodeInterrupted)
		b.wantMarks("t1/1")
	})
}

func TestCrashBetweenOutboxAndJournalKeepsTheAnswer(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		path := filepath.Join(b.folder, "journal.log")
		b.grant("t1", 1)
		first := b.result()
		b.kill()
		// Cut the journal's last line, "finished".
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(data)-5)); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.agent.Up()
		if r := b.result(); r.SHA256 != first.SHA256 {
			t.Errorf("sent %+v", r)
		}
	})
}

func TestStopEndsWorkWithinFiveSeconds(t *testing.T) {
	stubborn := func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
		time.Sleep(time.Hour)
		return nil, errors.New("unreachable in this test")
	}
	inBubble(t, stubborn, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		began := time.Now()
		b.kill()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		b.start()
		b.agent.Up()
		b.wantFailure(b.result(), protocol.CodeInterrupted)
		sleep(time.Hour) // the bubble waits for the stubborn one
	})
}

func TestSyncIsAuthoritative(t *testing.T) {
	t.Run("what is not open is dropped", func(t *testing.T) {
		inBubble(t, slow, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("run")
			b.grant("run", 1)
			b.offer("wait")
			b.agent.Up()
			b.sync()
			sleep(time.Minute)
			b.wantClaims("run")
			if n := len(drain[protocol.Result](t, b.wire, protocol.KindResult)); n != 0 {
				t.Errorf("%d results of a task that is gone", n)
			}
			hello := b.helloNow()
			if len(hello.Open) != 0 {
				t.Errorf("still held: %+v", hello.Open)
			}
		})
	})
	t.Run("but not what came after the hello", func(t *testing.T) {
		inBubble(t, count, func(t *testing.T, b *bench) {
			b.agent.Up()
			sleep(time.Second)
			b.offer("new")
			b.sync()
			b.wantClaims("new")
		})
	})
	t.Run("an answer without a receipt stays", func(t *testing.T) {
		inBubble(t, count, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			b.result()
			b.agent.Up()
			b.sync()
			b.result()
			if b.answers() != 1 {
				t.Error("I1: deleted without a receipt")
			}
		})
	})
	t.Run("a stale result goes with its task", func(t *testing.T) {
		inBubble(t, count, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			b.receipt(b.result(), false, protocol.CodeStale)
			if b.answers() != 1 {
				t.Fatal("a good result must stay for the next grant")
			}
			b.agent.Up()
			b.sync(pending("t1"))
			if b.answers() != 1 {
				t.Fatal("dropped while the task is open")
			}
			b.agent.Up()
			b.sync()
			if b.answers() != 0 {
				t.Error("kept though the task is over")
			}
		})
	})
	t.Run("one that answers no hello of ours", func(t *testing.T) {
		inBubble(t, count, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			b.claims()
			b.order(protocol.Order{Order: protocol.OrderSync, HelloID: "an older one", ServerTimeMs: time.Now().UnixMilli()})
			b.order(protocol.Order{Order: protocol.OrderSync, ServerTimeMs: time.Now().UnixMilli()})
			sleep(6 * time.Second)
			b.sync(pending("t1")) // it asked again
			sleep(30 * time.Second)
			b.wantSomeClaims("t1")
		})
	})
}

// helloNow brings the link down and up and returns the hello.
func (b *bench) helloNow() protocol.Hello {
	b.agent.Down()
	b.agent.Up()
	return b.sync()
}
