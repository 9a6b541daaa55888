package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestGrantIsRefusedUnlessItsConditionsHold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(b *bundle)
		change  func(*store.Grant)
		now     time.Time
		want    protocol.Code
	}{
		{name: "pending", now: t0},
		{name: "unknown task", change: func(g *store.Grant) { g.TaskID = "x" }, now: t0, want: protocol.CodeNotFound},
		{name: "another store's", change: func(g *store.Grant) { g.StoreID = storeID(1) }, now: t0, want: protocol.CodeNotFound},
		{name: "running", prepare: func(b *bundle) { b.grant(0, t0) }, now: t0, want: protocol.CodeTaken},
		{name: "running, another terminal asks", prepare: func(b *bundle) { b.grant(0, t0) },
			change: func(g *store.Grant) { g.TerminalID = "pos2" }, now: t0, want: protocol.CodeTaken},
		{name: "succeeded", prepare: func(b *bundle) { b.grant(0, t0); b.settle(success(0, 1, `{}`), t0) }, now: t0, want: protocol.CodeSettled},
		{name: "retry not due", prepare: func(b *bundle) { b.grant(0, t0); b.settle(failure(0, 1, task.Fail), t0) },
			now: at(time.Minute - time.Millisecond), want: protocol.CodeNotYet},
		{name: "retry due", prepare: func(b *bundle) { b.grant(0, t0); b.settle(failure(0, 1, task.Fail), t0) }, now: at(time.Minute)},
		{name: "given up", prepare: func(b *bundle) { b.grant(0, t0); b.settle(failure(0, 1, task.GiveUp), t0) },
			now: at(time.Hour), want: protocol.CodeSettled},
		{name: "attempts used", prepare: func(b *bundle) {
			b.grant(0, t0)
			b.settle(failure(0, 1, task.Fail), t0)
			b.grant(0, at(time.Minute))
			b.settle(failure(0, 2, task.Fail), at(time.Minute))
		}, now: at(time.Hour), want: protocol.CodeSettled},
		{name: "cancelled", prepare: func(b *bundle) { b.cancel() }, now: t0, want: protocol.CodeSettled},
		{name: "just before the make-up window ends", now: at(time.Hour - time.Millisecond)},
		{name: "the make-up window ended", now: at(time.Hour), want: protocol.CodeSettled},
		{name: "running when the make-up window ended", prepare: func(b *bundle) { b.grant(0, t0) }, now: at(time.Hour), want: protocol.CodeTaken},
		{name: "run closed", prepare: func(b *bundle) { b.closeRun() }, now: t0, want: protocol.CodeSettled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.create(2)
			if tt.prepare != nil {
				tt.prepare(b)
			}
			before, err := b.GetTask(t.Context(), taskID(0))
			if err != nil {
				t.Fatal(err)
			}
			b.heard()
			g := store.Grant{TaskID: taskID(0), StoreID: storeID(0), TerminalID: "pos1", LeaseUntil: tt.now.Add(time.Minute)}
			if tt.change != nil {
				tt.change(&g)
			}
			got, err := b.Grant(t.Context(), g, tt.now)
			if err != nil || got.Refusal != tt.want {
				t.Fatalf("refusal %q, want %q, %v", got.Refusal, tt.want, err)
			}
			after, err := b.GetTask(t.Context(), taskID(0))
			if err != nil {
				t.Fatal(err)
			}
			changes := b.heard()
			if tt.want != "" {
				if fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) || len(changes) != 0 {
					t.Errorf("a refused grant changed %+v to %+v, told %+v", before, after, changes)
				}
				if tt.want == protocol.CodeTaken && got.Task.HolderID != "pos1" {
					t.Errorf("taken by %q", got.Task.HolderID)
				}
				return
			}
			if fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", got.Task) {
				t.Errorf("granted %+v, stored %+v", got.Task, after)
			}
			if after.State.Attempt != before.State.Attempt+1 || after.HolderID != "pos1" || after.ClaimedAt.IsZero() || !after.NextAttemptAt.IsZero() {
				t.Errorf("granted %+v", after)
			}
			if len(changes) != 1 || changes[0].From != before.State || changes[0].Event != task.Grant || changes[0].Task.State != after.State {
				t.Errorf("told %+v", changes)
			}
		})
	}
}

func TestGrantToTheNamedTerminalOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	places, tasks := targets(1)
	tasks[0].TerminalID = "backoffice"
	if _, err := b.CreateRun(t.Context(), newRun("R"), places, tasks, store.Request{}, t0); err != nil {
		t.Fatal(err)
	}
	for terminal, want := range map[string]protocol.Code{"pos1": protocol.CodeNotFound, "backoffice": ""} {
		got, err := b.Grant(t.Context(), store.Grant{TaskID: taskID(0), StoreID: storeID(0), TerminalID: terminal}, t0)
		if err != nil || got.Refusal != want {
			t.Errorf("%s: %q, %v", terminal, got.Refusal, err)
		}
	}
}

func TestOneOfManyClaimsIsGranted(t *testing.T) { // I3
	t.Parallel()
	b := setup(t)
	b.create(1)
	var granted atomic.Int32
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			g, err := b.Grant(t.Context(), store.Grant{TaskID: taskID(0), StoreID: storeID(0), TerminalID: fmt.Sprintf("pos%d", i), LeaseUntil: at(time.Minute)}, t0)
			if err != nil {
				t.Error(err)
			}
			if g.Refusal == "" {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	attempts, err := b.ListAttempts(t.Context(), taskID(0))
	if granted.Load() != 1 || err != nil || len(attempts) != 1 {
		t.Errorf("%d grants, %d attempts, %v", granted.Load(), len(attempts), err)
	}
}

func TestExecutionsNeverExceedAttempts(t *testing.T) {
	t.Parallel()
	for _, allowed := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.create(1, func(r *store.Run) { r.Policy.Attempts = allowed })
			grants := 0
			for i := range 10 {
				now := at(time.Duration(i) * 5 * time.Minute)
				g, err := b.Grant(t.Context(), store.Grant{TaskID: taskID(0), StoreID: storeID(0), TerminalID: "pos1"}, now)
				if err != nil {
					t.Fatal(err)
				}
				if g.Refusal != "" {
					continue
				}
				grants++
				b.settle(failure(0, g.Task.State.Attempt, task.Fail), now)
			}
			k, err := b.GetTask(t.Context(), taskID(0))
			if err != nil || grants != allowed || k.State != (task.State{Status: task.Failed, Attempt: allowed, Settled: true}) {
				t.Errorf("%d grants, %+v, %v", grants, k.State, err)
			}
		})
	}
}

func TestSignsRenewOnlyTheRunningAttemptOfTheHolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	sign := store.Sign{TaskID: taskID(0), Attempt: 1, StoreID: storeID(0), TerminalID: "pos1", LeaseUntil: at(time.Minute)}
	send := func(change func(*store.Sign), now time.Time) bool {
		s := sign
		change(&s)
		ok, err := b.Sign(t.Context(), s, now)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	foreign := map[string]func(*store.Sign){
		"attempt":  func(s *store.Sign) { s.Attempt = 2 },
		"terminal": func(s *store.Sign) { s.TerminalID = "pos2" },
		"store":    func(s *store.Sign) { s.StoreID = storeID(1) },
		"task":     func(s *store.Sign) { s.TaskID = "x" },
	}
	for name, change := range foreign {
		if send(change, at(time.Second)) {
			t.Errorf("a sign with a foreign %s was taken", name)
		}
	}
	if !send(func(*store.Sign) {}, at(2*time.Second)) ||
		!send(func(s *store.Sign) { s.LeaseUntil, s.ReadyBytes, s.SHA256 = at(time.Second), 9000, "abc" }, at(3*time.Second)) {
		t.Fatal("a sign of the holder was refused")
	}
	running, err := b.ListRunning(t.Context())
	if err != nil || len(running) != 1 {
		t.Fatal(running, err)
	}
	a := running[0].Attempt
	if a.StartedAt != at(2*time.Second) || a.LastSignAt != at(3*time.Second) || a.ReadyAt != at(3*time.Second) ||
		a.LeaseUntil != at(time.Minute) || a.Bytes != 9000 || a.SHA256 != "abc" || !a.ReceivedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	if err := b.ExtendLeases(t.Context(), at(time.Hour), at(4*time.Second)); err != nil {
		t.Fatal(err)
	}
	b.settle(success(0, 1, `{}`), at(5*time.Second))
	if send(func(*store.Sign) {}, at(6*time.Second)) {
		t.Error("a sign after the answer was taken")
	}
	if err := b.ExtendLeases(t.Context(), at(2*time.Hour), at(7*time.Second)); err != nil {
		t.Fatal(err)
	}
	attempts, err := b.ListAttempts(t.Context(), taskID(0))
	if err != nil || attempts[0].LeaseUntil != at(time.Hour) {
		t.Errorf("lease %v: running attempts are extended and no others, %v", attempts[0].LeaseUntil, err)
	}
	if running, err := b.ListRunning(t.Context()); err != nil || len(running) != 0 {
		t.Error(running, err)
	}
}

func TestFirstClaimIsNotedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(2)
	for i := range 3 {
		if err := b.NoteClaim(t.Context(), taskID(0), at(time.Duration(i+1)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if k := b.grant(0, at(time.Minute)); k.ClaimedAt != at(time.Second) {
		t.Errorf("claimed at %v", k.ClaimedAt)
	}
	if k := b.grant(1, at(time.Minute)); k.ClaimedAt != at(time.Minute) {
		t.Errorf("a grant without a claim before: claimed at %v", k.ClaimedAt)
	}
}
