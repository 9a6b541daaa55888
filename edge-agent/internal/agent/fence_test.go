package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

// TestACopyOfAGrantRepeatsWhatWasSaid, at once: headquarters may have missed it.
func TestACopyOfAGrantRepeatsWhatWasSaid(t *testing.T) {
	t.Parallel()
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		drain[protocol.Progress](t, b.wire, protocol.KindProgress)
		b.grant("t1", 1)
		if said := drain[protocol.Progress](t, b.wire, protocol.KindProgress); len(said) != 1 || said[0].Attempt != 1 {
			t.Errorf("a copy while it runs is answered with %+v", said)
		}
		sleep(10 * time.Second)
		first := b.result()
		b.grant("t1", 1)
		if again := b.result(); again.SHA256 != first.SHA256 || again.Attempt != 1 {
			t.Errorf("a copy behind the end is answered with %+v, want %+v", again, first)
		}
		b.wantMarks("t1/1")
	})
}

// TestAGrantThatWaitsForAPlaceGoesWithItsCancel, of whatever attempt; a late copy of
// the offer does not bring it back.
func TestAGrantThatWaitsForAPlaceGoesWithItsCancel(t *testing.T) {
	t.Parallel()
	for attempt := range 2 { // 0 means any
		inBubble(t, slow, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("busy")
			b.grant("busy", 1)
			b.offer("t1")
			b.grant("t1", 1)
			b.order(protocol.Order{Order: protocol.OrderCancel, TaskID: "t1", Attempt: attempt, Reason: "by_user"})
			b.offer("t1")
			sleep(30 * time.Second)
			b.wantMarks("busy/1")
		})
	}
}

// TestAJournalThatIsLostStartsNothingAgain, however it was lost: neither what the
// other process began nor, should headquarters say it to this one, the same attempt.
func TestAJournalThatIsLostStartsNothingAgain(t *testing.T) {
	t.Parallel()
	const header = "muster-journal 1\n"
	for name, lose := range map[string]func(path string) error{
		"gone":          os.Remove,
		"emptied":       func(p string) error { return os.Truncate(p, 0) },
		"cut to a line": func(p string) error { return os.Truncate(p, int64(len(header))) },
		"zeroes":        func(p string) error { return os.WriteFile(p, make([]byte, 4096), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, slow, func(t *testing.T, b *bench) {
				b.connect(pending("t1"))
				b.offer("t1")
				first := b.claimed()
				b.grantTo(first.Instance, "t1", 1)
				b.wantMarks("t1/1")
				b.kill()
				if err := lose(filepath.Join(b.folder, "journal.log")); err != nil {
					t.Fatal(err)
				}
				b.start()
				b.connect(held("t1", 1, first.Instance)) // as headquarters says it
				b.offer("t1")
				second := b.claimed()
				if second.Previous != "" || second.Instance == first.Instance {
					t.Errorf("claimed as %q after %q: it does not know of the other's work", second.Instance, second.Previous)
				}
				b.grantTo(first.Instance, "t1", 1)
				sleep(lease)
				b.wantMarks("t1/1")
				if n := b.answers(); n != 0 {
					t.Errorf("%d answers to what it knows nothing of", n)
				}
				b.grantTo(second.Instance, "t1", 2) // the lease ended, and the job allows it
				sleep(11 * time.Second)
				if r := b.result(); r.Attempt != 2 || r.Outcome != protocol.AnswerSucceeded || !r.Executed {
					t.Errorf("answered %+v", r)
				}
				b.wantMarks("t1/1", "t1/2")
			})
		})
	}
}

// TestAnOlderGrantDoesNotTakeTheNewerOnesPlace while both wait for room.
func TestAnOlderGrantDoesNotTakeTheNewerOnesPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("busy")
		b.grant("busy", 1)
		b.offer("t1")
		b.grant("t1", 2)
		b.grant("t1", 1) // overtaken on its way
		sleep(21 * time.Second)
		b.wantMarks("busy/1", "t1/2")
	})
}

// TestTheEndOfAnAttemptDoesNotLowerTheFence that a cancel of the next one raised
// meanwhile: a grant of that which is late starts nothing, also after a restart.
func TestTheEndOfAnAttemptDoesNotLowerTheFence(t *testing.T) { // I9
	t.Parallel()
	for _, receipted := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			inBubble(t, slow, func(t *testing.T, b *bench) {
				b.connect()
				b.offer("t1")
				b.grant("t1", 1)
				b.order(protocol.Order{Order: protocol.OrderCancel, TaskID: "t1", Attempt: 2, Reason: "by_user"})
				r := b.result()
				if receipted {
					b.receipt(r, true, "")
				}
				if restarted {
					b.kill()
					b.start()
					b.connect(pending("t1"))
				}
				b.grant("t1", 2)
				b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
				sleep(30 * time.Second)
				b.wantMarks("t1/1")
			})
		}
	}
}

// TestWhatIsOverIsNotAskedForAgain, though its offer still lies there.
func TestWhatIsOverIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("done")
		b.offer("off")
		b.grant("done", 1)
		b.order(protocol.Order{Order: protocol.OrderCancel, TaskID: "off", Attempt: 1, Reason: "by_user"})
		b.receipt(b.result(), true, "")
		b.claims()
		sleep(time.Minute)
		b.wantClaims()
	})
}

// TestASlotIsForTheAttemptThatItNames.
func TestASlotIsForTheAttemptThatItNames(t *testing.T) {
	t.Parallel()
	big := func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
		return fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", protocol.InlineLimit)), nil
	}
	inBubble(t, big, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 2)
		b.order(protocol.Order{Order: protocol.OrderSend, TaskID: "t1", Attempt: 1})
		if n := len(drain[protocol.Result](t, b.wire, protocol.KindResult)); n != 0 {
			t.Errorf("%d results for the slot of another attempt", n)
		}
		b.order(protocol.Order{Order: protocol.OrderSend, TaskID: "t1", Attempt: 2})
		b.result()
	})
}

// TestAnAnswerToAnEarlierAttemptHidesNothing: neither when it waits in the outbox
// nor when its receipt comes while the next attempt runs is that one forgotten.
func TestAnAnswerToAnEarlierAttemptHidesNothing(t *testing.T) {
	t.Parallel()
	for _, receipted := range []bool{false, true} {
		calls := 0
		work := func(ctx context.Context, input json.RawMessage, at time.Time) (json.RawMessage, error) {
			if calls++; calls == 1 {
				return nil, errors.New("printer on fire")
			}
			return slow(ctx, input, at)
		}
		inBubble(t, work, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			first := b.result()
			b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
			b.grant("t1", 2) // headquarters has the answer, its receipt is late
			if receipted {
				b.receipt(first, true, "")
			}
			b.kill()
			b.start()
			b.agent.Up()
			r := b.result()
			b.wantFailure(r, protocol.CodeInterrupted)
			if r.Attempt != 2 || !r.Executed {
				t.Errorf("receipted %t: answered %+v", receipted, r)
			}
			b.sync(mine("t1", 2))
			b.grant("t1", 2)
			b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
			b.grant("t1", 2)
			sleep(time.Second)
			b.wantMarks("t1/1", "t1/2")
		})
	}
}

// TestALateWordChangesNothing: an offer and a deny of before, and a list that names
// an attempt which is answered already.
func TestALateWordChangesNothing(t *testing.T) {
	t.Parallel()
	fails := func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
		return nil, errors.New("printer on fire")
	}
	t.Run("offer", func(t *testing.T) {
		t.Parallel()
		inBubble(t, fails, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			r := b.result()
			b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
			b.offer("t1") // of before
			b.claims()
			b.receipt(r, true, "")
			sleep(time.Minute)
			b.wantSomeClaims("t1")
		})
	})
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		inBubble(t, fails, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			first := b.result()
			b.connect(mine("t1", 1))
			sleep(time.Minute)
			for _, r := range drain[protocol.Result](t, b.wire, protocol.KindResult) {
				if r.SHA256 != first.SHA256 {
					t.Errorf("answers %s, and before %s", r.Error, first.Error)
				}
			}
		})
	})
	t.Run("deny", func(t *testing.T) {
		t.Parallel()
		inBubble(t, slow, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("busy")
			b.grant("busy", 1)
			b.offer("t1")
			b.grant("t1", 1)
			b.order(protocol.Order{Order: protocol.OrderDeny, TaskID: "t1", Code: protocol.CodeSettled})
			sleep(21 * time.Second)
			b.wantMarks("busy/1", "t1/1")
		})
	})
}

// TestAListSaysNothingOfWhatIsNotHere: neither of an attempt that another terminal
// has nor of one that this terminal knows and is still to answer by itself.
func TestAListSaysNothingOfWhatIsNotHere(t *testing.T) {
	t.Parallel()
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("busy")
		b.grant("busy", 1)
		b.offer("t1")
		b.grant("t1", 1) // waits for a place
		b.offer("t2")
		other := protocol.SyncTask{TaskID: "t2", Status: task.Running, Attempt: 1}
		b.connect(mine("busy", 2), mine("t1", 1), other) // a grant of busy is on its way
		if n := b.answers(); n != 0 {
			t.Errorf("%d answers to what is not over", n)
		}
		sleep(21 * time.Second)
		b.wantMarks("busy/1", "t1/1")
		for _, r := range drain[protocol.Result](t, b.wire, protocol.KindResult) {
			if r.Outcome != protocol.AnswerSucceeded || r.TaskID == "t2" {
				t.Errorf("answered %s/%d with %s", r.TaskID, r.Attempt, r.Error)
			}
		}
	})
}
