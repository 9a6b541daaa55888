package barrier_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestAClockThatStepsIsNoticedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(1)
		d.pass(10 * time.Second)
		d.step.Store(int64(2 * time.Minute))
		d.pass(time.Second)
		if revs := d.revisions(); len(revs) != 1 || revs[0].Why != "barrier" {
			t.Errorf("got revisions %+v a second after the clock stepped over the deadline", revs)
		}
	})
}

func TestACrashBetweenTheCloseAndTheJudgementIsMendedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.create(2)
		d.succeed(0)
		time.Sleep(2 * time.Minute)
		closedAt := time.Now()
		snap, err := d.store.CloseBarrier(t.Context(), runID, closedAt)
		if err != nil {
			t.Fatal(err)
		}
		if err := snap.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		d.start()
		d.settle()
		if revs := d.revisions(); len(revs) != 1 || revs[0].PublishedAt.IsZero() {
			t.Fatalf("got revisions %+v", revs)
		}
		if run := d.run(); !run.BarrierClosedAt.Equal(closedAt) {
			t.Errorf("the barrier closed at %s; want the first close, %s", run.BarrierClosedAt, closedAt)
		}
	})
}

func TestTheWorstOfSeveralTasksDecidesAndMovesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		now := time.Now()
		run := store.Run{RunID: runID, Job: "collect_log", JobVersion: 1, RequestedBy: "ada", Input: json.RawMessage(`{}`),
			Policy: job.Policy{Attempts: 1, Late: job.AcceptAndRevise}, CreatedAt: now, BarrierAt: now.Add(time.Minute), MakeupUntil: now.Add(time.Hour)}
		place := store.Place{StoreID: shop(0), Name: "two tills"}
		tasks := []store.NewTask{{TaskID: "A", StoreID: shop(0)}, {TaskID: "B", StoreID: shop(0)}, {TaskID: "C", StoreID: shop(0)}}
		if _, err := d.store.CreateRun(t.Context(), run, []store.Place{place}, tasks, store.Request{}, now); err != nil {
			t.Fatal(err)
		}
		d.online(0, true)
		do := func(id string) {
			t.Helper()
			granted, err := d.store.Grant(t.Context(), store.Grant{TaskID: id, StoreID: shop(0), TerminalID: "pos1", LeaseUntil: time.Now().Add(time.Hour)}, time.Now())
			if err != nil || granted.Refusal != "" {
				t.Fatalf("grant of %s: %+v, %v", id, granted, err)
			}
			settled, err := d.store.Settle(t.Context(), store.Answer{Event: task.Succeed, Attempt: store.Attempt{TaskID: id, Attempt: 1,
				StoreID: shop(0), TerminalID: "pos1", Answer: protocol.AnswerSucceeded, Result: json.RawMessage(`{}`), SHA256: id}}, time.Now())
			if err != nil || !settled.Applied {
				t.Fatalf("answer of %s: %+v, %v", id, settled, err)
			}
		}
		do("A")
		d.pass(time.Minute)
		if row := d.rows(1)[shop(0)]; row.Outcome != task.OutcomeTimedOut || row.TaskID != "B" {
			t.Errorf("at the barrier: got %s by task %s; want timed_out by B, the first of the worst", row.Outcome, row.TaskID)
		}
		do("B")
		d.pass(time.Minute)
		if n := len(d.revisions()); n != 1 {
			t.Errorf("%d revisions while one task is open", n)
		}
		do("C")
		d.pass(time.Minute)
		revs := d.revisions()
		if len(revs) != 2 {
			t.Fatalf("got %d revisions; want 2", len(revs))
		}
		if row := d.rows(2)[shop(0)]; row.Outcome != task.OutcomeSucceeded || row.AtBarrier != task.OutcomeTimedOut || !row.Late {
			t.Errorf("after all: got %+v", row)
		}
		if run := d.run(); run.Phase() != protocol.PhaseClosed {
			t.Errorf("the run is %s", run.Phase())
		}
	})
}

func TestARetryThatSucceedsAfterTheBarrierMovesForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(2)
		d.online(0, true)
		d.answer(0, d.grant(0, true), protocol.CodeInterrupted)
		d.pass(2 * time.Minute)
		if row := d.rows(1)[shop(0)]; row.Outcome != task.OutcomeFailed || row.Reason != task.ReasonExecutionError || row.Error.Code != protocol.CodeInterrupted {
			t.Errorf("at the barrier: got %s, %s, %+v", row.Outcome, row.Reason, row.Error)
		}
		d.succeed(0)
		d.pass(10 * time.Second)
		if row := d.rows(2)[shop(0)]; row.Outcome != task.OutcomeSucceeded || row.AtBarrier != task.OutcomeFailed || row.Error != nil {
			t.Errorf("after the retry: got %+v", row)
		}
	})
}

func TestALeaseThatEndsAfterTheBarrierIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(2, func(r *store.Run) { r.Policy.Attempts = 1 })
		d.online(0, true)
		attempt := d.grant(0, true)
		d.pass(2 * time.Minute)
		word := store.Answer{Event: task.GiveUp, Reason: task.ReasonLeaseExpired, Attempt: store.Attempt{TaskID: taskOf(0), Attempt: attempt, StoreID: shop(0),
			TerminalID: "pos1", Failure: &protocol.Failure{Code: protocol.CodeLeaseExpired}}}
		if settled, err := d.store.Settle(t.Context(), word, time.Now()); err != nil || !settled.Applied {
			t.Fatalf("got %+v, %v", settled, err)
		}
		d.pass(2 * time.Hour)
		if n := len(d.revisions()); n != 1 {
			t.Errorf("got %d revisions; want 1: nobody delivered anything", n)
		}
		if run := d.run(); run.Phase() != protocol.PhaseClosed {
			t.Errorf("the run is %s", run.Phase())
		}
	})
}

func TestAnswersDuringARevisionMakeTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.hook.before = func(revision int) {
			if i := revision - 1; i < 3 { // late answers while revisions 1, 2 and 3 are written
				d.online(i, true)
				d.succeed(i)
			}
		}
		d.start()
		d.create(4)
		d.pass(2*time.Minute + 10*time.Second)
		revs := d.revisions()
		if len(revs) != 4 {
			t.Fatalf("got %d revisions; want 4", len(revs))
		}
		for i := range 3 {
			if row := d.rows(4)[shop(i)]; row.Outcome != task.OutcomeSucceeded || row.AtBarrier != task.OutcomeOffline {
				t.Errorf("%s: got %s (at the barrier %s)", shop(i), row.Outcome, row.AtBarrier)
			}
		}
	})
}

func TestALateAnswerBeforeARestartIsPublishedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(3)
		d.pass(2 * time.Minute)
		d.online(0, true)
		d.succeed(0)
		d.restart() // before it was quiet for 2 s
		d.pass(time.Second)
		if revs := d.revisions(); len(revs) != 2 || revs[1].PublishedAt.IsZero() {
			t.Errorf("got revisions %+v; want two", revs)
		}
	})
}
