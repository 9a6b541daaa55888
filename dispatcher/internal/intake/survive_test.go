package intake_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// brittle is the store with a fault that one kind of result sets off.
type brittle struct {
	*store.Store
	err func() error // what Settle says instead; nil: it panics

	mu    sync.Mutex
	tries int
}

const poison = `{"lines":1,"text":"poison password=hunter2"}`

func (b *brittle) Settle(ctx context.Context, a store.Answer, now time.Time) (store.Settled, error) {
	if !strings.Contains(string(a.Attempt.Result), "poison") {
		return b.Store.Settle(ctx, a, now)
	}
	b.mu.Lock()
	b.tries++
	b.mu.Unlock()
	if b.err != nil {
		return store.Settled{}, b.err()
	}
	panic("a fault of headquarters' own")
}

// fragile is a desk whose store breaks on poison.
type fragile struct {
	*desk
	store  *brittle
	folder string
	alarms []string
}

func openFragile(t *testing.T, l limits) *fragile {
	t.Helper()
	f := &fragile{desk: &desk{t: t, leases: &leases{}}, folder: filepath.Join(t.TempDir(), "quarantine")}
	f.Bench = steptest.New(t, func(changes []store.Change) { f.Changed(changes) })
	f.store = &brittle{Store: f.Store}
	q, err := quarantine.Open(f.folder)
	if err != nil {
		t.Fatal(err)
	}
	f.Intake = intake.New(intake.Config{Tasks: f.Store, Attempts: f.store, Jobs: registry(t), Leases: f.leases,
		Orders: f.Sender, Now: time.Now, Logger: f.Logger, InFlight: l.inFlight, BytesPerSecond: l.perSecond, BurstBytes: l.burst,
		Quarantine: q, Alarm: func(kind, subject string, trouble error) {
			f.alarms = append(f.alarms, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
		}})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	started := f.Intake
	t.Cleanup(func() {
		started.Stop()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// poisoned is the answer as a terminal sends it again: framed anew each time.
func poisoned(i int, seq int64) protocol.Result {
	m := success(i, 1, poison)
	m.Seq = seq
	return m
}

func (f *fragile) kept() []string {
	f.t.Helper()
	found, err := filepath.Glob(filepath.Join(f.folder, "*.message.json"))
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

func (f *fragile) raised(kind string) (found []string) {
	for _, a := range f.alarms {
		if strings.HasPrefix(a, kind+" ") {
			found = append(found, a)
		}
	}
	return found
}

func TestAPoisonedResultIsTriedThreeTimesThenSetAsideAndTheRestFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFragile(t, wide())
		f.run(4)
		for try := range 3 {
			if got := f.lastReceipt(); try > 0 && got != "accepted" || f.Task("r-S000").State != running(1) {
				t.Errorf("before try %d: receipt %s, %+v", try+1, got, f.Task("r-S000").State)
			}
			f.send(0, poisoned(0, int64(try+1)))
			if try < 2 {
				f.send(try+1, success(try+1, 1, `{"lines":1}`)) // the rest flows
			}
			time.Sleep(20 * time.Second)
		}
		f.expect("refused INVALID_RESULT", over(task.Failed, 1))
		receipts := f.Broker.Orders(protocol.OrderReceipt)
		last := receipts[len(receipts)-1].Order
		if last.SHA256 != digest(poison) || last.Attempt != 1 || !strings.Contains(last.Message, "3 times") {
			t.Errorf("its terminal cannot know the receipt: %+v", last)
		}
		f.send(3, success(3, 1, `{"lines":1}`))
		for i := range 3 {
			if got := f.Task(steptest.TaskID("r", i+1)).State; got != over(task.Succeeded, 1) {
				t.Errorf("store %d: %+v", i+1, got)
			}
		}
		f.setAside(poison)
		for range 5 { // the receipt was lost
			f.send(0, poisoned(0, 9))
			f.expect("refused INVALID_RESULT", over(task.Failed, 1))
		}
		f.setAside(poison)
		if got := f.Stats(); got.Broke != 3 || got.Quarantine != 1 || got.Invalid != 1 || got.Duplicate != 5 {
			t.Errorf("counted %+v", got)
		}
	})
}

// setAside checks that one answer is kept, without its secret, named by one
// alarm and in the record of the attempt.
func (f *fragile) setAside(result string) {
	f.t.Helper()
	kept, raised := f.kept(), f.raised(intake.AlarmQuarantined)
	if len(kept) != 1 || len(raised) != 1 {
		f.t.Fatalf("kept %v, raised %v", kept, raised)
	}
	text, err := os.ReadFile(kept[0])
	if err != nil || !strings.Contains(string(text), strings.TrimSuffix(strings.Split(result, "password")[0], " ")) || strings.Contains(string(text), "hunter2") {
		f.t.Errorf("kept %s, %v", text, err)
	}
	for _, part := range []string{"S000/pos", "task r-S000", "store S000", kept[0], "3 times"} {
		if !strings.Contains(raised[0], part) {
			f.t.Errorf("the alarm does not name %s: %s", part, raised[0])
		}
	}
	attempts, err := f.Store.ListAttempts(f.t.Context(), "r-S000")
	if err != nil || len(attempts) != 1 || attempts[0].Failure == nil || f.Task("r-S000").Reason != task.ReasonInvalidResult ||
		!strings.Contains(attempts[0].Failure.Message, filepath.Base(kept[0])) || attempts[0].SHA256 != digest(result) {
		f.t.Errorf("attempts %+v, %v", attempts, err)
	}
}

func TestAWriteThatBreaksByItselfIsPoisonTooAndADiskThatRefusesIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFragile(t, wide())
		f.run(1)
		full := fmt.Errorf("cannot settle: %w", store.ErrNoSpace)
		f.store.err = func() error { return full }
		for range 5 {
			err := f.HandleResult(t.Context(), steptest.From(0, protocol.KindResult), steptest.Message(poisoned(0, 1)))
			if !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("a full disk is answered with %v", err)
			}
		}
		if f.Stats().Broke != 0 {
			t.Errorf("a full disk is blamed on the answer: %+v", f.Stats())
		}
		f.expect("none", running(1)) // what is not on the disk has no receipt
		f.store.err = func() error { return fmt.Errorf("cannot settle: %w", store.ErrBroken) }
		for try := range int64(3) {
			f.expect("none", running(1))
			f.send(0, poisoned(0, try+1))
		}
		f.expect("refused INVALID_RESULT", over(task.Failed, 1))
		f.setAside(poison)
	})
}

func TestAnAnswerThatEndedHeadquartersThreeTimesIsSetAsideAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFragile(t, wide())
		f.run(2)
		q, err := quarantine.Open(filepath.Join(t.TempDir(), "earlier"))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			q.Broke(quarantine.Answer{StoreID: "S000", TerminalID: "pos", TaskID: "r-S000", Attempt: 1, SHA256: digest(poison)})
		}
		synctest.Wait() // what was granted is told to the other one
		f.Intake = intake.New(intake.Config{Tasks: f.Store, Attempts: f.store, Jobs: registry(t), Leases: f.leases, Orders: f.Sender,
			Now: time.Now, Logger: f.Logger, InFlight: 1, BurstBytes: 1, Quarantine: q})
		f.send(0, poisoned(0, 1))
		f.expect("refused INVALID_RESULT", over(task.Failed, 1))
		f.send(1, success(1, 1, `{"lines":1}`))
		f.lastReceipt()
		if f.store.tries != 0 || f.Task("r-S001").State != over(task.Succeeded, 1) {
			t.Errorf("it was judged %d times; the other is %+v", f.store.tries, f.Task("r-S001").State)
		}
	})
}

// A large result that breaks headquarters gives its slot back at once.
func TestAPoisonedUploadHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFragile(t, limits{inFlight: 1, perSecond: 0, burst: 1 << 20})
		f.run(2)
		large := `{"lines":1,"text":"poison ` + strings.Repeat("x", 2*protocol.InlineLimit) + `"}`
		for i := range 2 {
			in := steptest.Message(protocol.Ready{TaskID: steptest.TaskID("r", i), Attempt: 1, Bytes: int64(len(large)), SHA256: digest(large)})
			if err := f.HandleReady(t.Context(), steptest.From(i, protocol.KindReady), in); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := len(f.Broker.Orders(protocol.OrderSend)); got != 1 {
			t.Fatalf("%d were called for", got)
		}
		f.send(0, success(0, 1, large))
		synctest.Wait()
		if got := f.Broker.Orders(protocol.OrderSend); len(got) != 2 || got[1].Order.TaskID != "r-S001" {
			t.Errorf("the next is not called: %+v", got)
		}
		if f.leases.isPaused("r-S000") {
			t.Error("its lease stands still for good")
		}
	})
}
