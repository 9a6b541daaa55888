package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/outbox"
	"muster/internal/protocol"
	"muster/internal/task"
)

// mostAnswers is how many answers may wait for their receipts.
const mostAnswers = 256

// fill has n answers of earlier lives wait in the outbox, "old0" and so on.
func (b *bench) fill(n int) {
	b.t.Helper()
	box, err := outbox.Open(filepath.Join(b.folder, "outbox"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range n {
		id := fmt.Sprintf("old%d", i)
		a := outbox.Answer{TaskID: id, Attempt: 1, Frame: protocol.Result{TaskID: id, Attempt: 1,
			Outcome: protocol.AnswerSucceeded, Result: []byte(`{}`), Executed: true}}
		a.Seal()
		if err := box.Put(a); err != nil {
			b.t.Fatal(err)
		}
	}
}

// answered drains the results, by task.
func (b *bench) answered() map[string]protocol.Result {
	b.t.Helper()
	sleep(time.Second)
	got := map[string]protocol.Result{}
	for _, r := range drain[protocol.Result](b.t, b.wire, protocol.KindResult) {
		got[r.TaskID] = r
	}
	return got
}

// onFullOutbox runs a test on an agent that keeps as many answers as it may, and
// hands on what its log says.
func onFullOutbox(t *testing.T, test func(b *bench, said func(text string) int)) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.kill()
		b.fill(mostAnswers)
		var log bytes.Buffer
		b.log = slog.New(slog.NewTextHandler(&log, nil))
		b.start()
		test(b, func(text string) int {
			sleep(0)
			return strings.Count(log.String(), text)
		})
	})
}

const (
	saysFull = "too many answers wait for their receipts"
	saysRoom = "answers are taken in again"
)

// TestAFullOutboxIsSaidAndNothingIsStartedUntilAnAnswerIsTakenIn, also after a
// restart; nothing is thrown away.
func TestAFullOutboxIsSaidAndNothingIsStartedUntilAnAnswerIsTakenIn(t *testing.T) {
	t.Parallel()
	onFullOutbox(t, func(b *bench, said func(string) int) {
		for life := 1; life <= 2; life++ {
			b.connect(pending("new"))
			b.offer("new")
			sleep(time.Minute) // in which all is said again
			b.wantClaims()
			b.wantMarks()
			if n := said(saysFull); n != life || b.answers() != mostAnswers {
				b.t.Errorf("life %d: said %d times, %d answers kept", life, n, b.answers())
			}
			if life == 1 {
				b.kill()
				b.start()
			}
		}
		got := b.answered()
		if len(got) != mostAnswers {
			sleep(time.Minute)
			for id, r := range b.answered() {
				got[id] = r
			}
		}
		if len(got) != mostAnswers {
			b.t.Fatalf("%d answers are said again", len(got))
		}
		b.receipt(got["old7"], true, "")
		if said(saysRoom) != 1 {
			b.t.Error("it does not say that it works again")
		}
		b.wantClaims("new")
		b.grant("new", 1)
		b.wantMarks("new/1")
		b.offer("next")
		sleep(time.Minute)
		b.wantClaims() // the answer of the new one took the place
		if n := said(saysFull); n != 3 {
			b.t.Errorf("said %d times", n)
		}
	})
}

// TestAFullOutboxOfStaleResultsEmptiesItself: each waits for a grant to answer,
// and is claimed for, since that starts nothing.
func TestAFullOutboxOfStaleResultsEmptiesItself(t *testing.T) {
	t.Parallel()
	onFullOutbox(t, func(b *bench, _ func(string) int) {
		var open []protocol.SyncTask
		for i := range mostAnswers {
			open = append(open, pending(fmt.Sprintf("old%d", i)))
		}
		b.agent.Up()
		for _, r := range b.answered() {
			b.receipt(r, false, protocol.CodeStale) // its lease ended long ago
		}
		b.sync(append(open, pending("new"))...)
		b.offer("new")
		b.wantClaims()
		b.offer("old3", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
		b.wantClaims("old3")
		b.grant("old3", 2)
		r := b.result()
		if r.Attempt != 2 || r.Executed || r.Outcome != protocol.AnswerSucceeded {
			b.t.Errorf("answered %+v", r)
		}
		b.receipt(r, true, "")
		b.wantClaims("new")
		b.wantMarks()
	})
}

// TestOffersThatAreHeldAreBounded: what is over is not even remembered, and counts
// when it comes again and there is room.
func TestOffersThatAreHeldAreBounded(t *testing.T) { // I12
	t.Parallel()
	const mostTasks = 5000
	inBubble(t, count, func(t *testing.T, b *bench) {
		for i := range mostTasks {
			b.offer(fmt.Sprint("later", i), func(o *protocol.Offer) { o.NotBefore = time.Now().Add(time.Hour).UnixMilli() })
		}
		b.offer("more")
		b.agent.Up()
		sleep(100 * time.Millisecond)
		hello := drain[protocol.Hello](t, b.wire, protocol.KindHello)[0]
		b.order(protocol.Order{Order: protocol.OrderSync, Partial: true, HelloID: hello.ID, ServerTimeMs: time.Now().UnixMilli()})
		b.wantClaims()
		b.withdraw("later7")
		b.offer("more")
		b.wantClaims("more")
	})
}

// TestWhatCannotBeJournalledIsNotClaimed: a grant that is lost on its way is asked
// for again only by who knows that it claimed.
func TestWhatCannotBeJournalledIsNotClaimed(t *testing.T) { // I3
	t.Parallel()
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		journal := filepath.Join(b.folder, "journal.log")
		if err := errors.Join(os.Remove(journal), os.Mkdir(journal, 0o700)); err != nil {
			t.Fatal(err)
		}
		b.offer("t1")
		b.wantClaims()
		if err := os.Remove(journal); err != nil {
			t.Fatal(err)
		}
		sleep(6 * time.Second)
		b.wantClaims("t1")
		b.grant("t1", 1)
		b.wantMarks("t1/1")
	})
}
