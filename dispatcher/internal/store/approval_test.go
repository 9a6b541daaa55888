package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

func newApproval(id string) store.Approval {
	return store.Approval{ApprovalID: id, Kind: store.ApprovalRun, Requester: "ada", RequestID: "q1", RequestHash: "rh", ContentHash: "ch",
		Request: `{"job":"collect_log"}`, Stores: 3, ExpiresAt: at(time.Hour)}
}

func (b *bundle) ask(id string, change ...func(*store.Approval)) store.Approval {
	b.t.Helper()
	a := newApproval(id)
	for _, f := range change {
		f(&a)
	}
	got, duplicate, err := b.AddApproval(b.t.Context(), a, t0)
	if err != nil || duplicate {
		b.t.Fatal(duplicate, err)
	}
	return got
}

func forKeys(a *store.Approval) { a.Kind = store.ApprovalKeys }

// approve creates run R under the approval.
func (b *bundle) approve(id, by, runID string, now time.Time) (store.Created, error) {
	places, tasks := targets(3)
	for i := range tasks {
		tasks[i].TaskID = runID + tasks[i].TaskID
	}
	return b.CreateApprovedRun(b.t.Context(), id, by, newRun(runID), places, tasks, store.Request{User: "ada", RequestID: "q1", ContentHash: "rh"}, now)
}

func (b *bundle) state(id string) string {
	b.t.Helper()
	a, err := b.GetApproval(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return a.State
}

func TestApprovalKeepsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got := b.ask("A1")
	want := newApproval("A1")
	want.CreatedAt, want.State = t0, store.ApprovalPending
	if got != want {
		t.Errorf("asked %+v, want %+v", got, want)
	}
	b.reopen()
	if stored, err := b.GetApproval(t.Context(), "A1"); err != nil || stored != want {
		t.Errorf("stored %+v, %v, want %+v", stored, err, want)
	}
	if _, err := b.GetApproval(t.Context(), "A2"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	decided, err := b.DecideApproval(t.Context(), "A1", "bob", store.ApprovalRejected, "not today", at(time.Minute))
	want.State, want.DecidedBy, want.Why, want.DecidedAt = store.ApprovalRejected, "bob", "not today", at(time.Minute)
	if err != nil || decided != want {
		t.Errorf("decided %+v, %v, want %+v", decided, err, want)
	}
	if stored, err := b.GetApproval(t.Context(), "A1"); err != nil || stored != want {
		t.Errorf("stored %+v, %v, want %+v", stored, err, want)
	}
}

func TestAskingAgainIsTheSameApproval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.ask("A1")
	again, duplicate, err := b.AddApproval(t.Context(), newApproval("A2"), at(time.Minute))
	if err != nil || !duplicate || again != first {
		t.Errorf("%+v, %t, %v", again, duplicate, err)
	}
	b.ask("A3", func(a *store.Approval) { a.Requester = "bob" })
	b.ask("A4", func(a *store.Approval) { a.RequestID = "" })
	b.ask("A5", func(a *store.Approval) { a.RequestID = "" })
	if _, err := b.DecideApproval(t.Context(), "A1", "bob", store.ApprovalVoid, "", t0); err != nil {
		t.Fatal(err)
	}
	b.ask("A6")
	pending, err := b.ListApprovals(t.Context(), true)
	if err != nil || len(pending) != 4 || pending[0].ApprovalID != "A3" {
		t.Errorf("pending %+v, %v", pending, err)
	}
	if all, err := b.ListApprovals(t.Context(), false); err != nil || len(all) != 5 {
		t.Errorf("all %+v, %v", all, err)
	}
}

func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask("A1")
	last := at(time.Hour)
	if err := b.Beat(t.Context(), last.Add(-time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if b.state("A1") != store.ApprovalPending {
		t.Error("it expired too early")
	}
	if err := b.Beat(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	pending, err := b.ListApprovals(t.Context(), true)
	if b.state("A1") != store.ApprovalExpired || err != nil || len(pending) != 0 {
		t.Errorf("%s, pending %+v, %v", b.state("A1"), pending, err)
	}
	if _, err := b.DecideApproval(t.Context(), "A1", "bob", store.ApprovalRejected, "", last); !errors.Is(err, store.ErrDecided) || !strings.Contains(err.Error(), "it is expired since 2026-09-17T03:00:00Z") {
		t.Errorf("decided after its time: %v", err)
	}
	if a, err := b.DecideApproval(t.Context(), "A1", "headquarters", store.ApprovalExpired, "", last); err != nil || a.State != store.ApprovalExpired {
		t.Errorf("said to be expired: %+v, %v", a, err)
	}
	if _, err := b.approve("A1", "bob", "R", last); !errors.Is(err, store.ErrDecided) {
		t.Errorf("approved after its time: %v", err)
	}
	if _, err := b.GetRun(t.Context(), "R"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it made a run: %v", err)
	}
	own := b.entries("headquarters")
	if len(own) != 1 || own[0].Action != "approval_expired" || own[0].Subject != "A1" {
		t.Errorf("the audit says %+v", own)
	}
	if got, duplicate, err := b.AddApproval(t.Context(), newApprovalUntil("A2", at(3*time.Hour)), at(2*time.Hour)); err != nil || duplicate || got.ApprovalID != "A2" {
		t.Errorf("asked again: %+v, %t, %v", got, duplicate, err)
	}
}

func newApprovalUntil(id string, until time.Time) store.Approval {
	a := newApproval(id)
	a.ExpiresAt = until
	return a
}

func TestApprovedRunNamesItsApprover(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask("A1")
	created, err := b.approve("A1", "bob", "R", at(time.Minute))
	if err != nil || created.Run.ApprovedBy != "bob" || created.Duplicate || created.Conflict {
		t.Fatal(created, err)
	}
	if heard := b.heard(); len(heard) != 1 || heard[0].Kind != store.RunCreated || heard[0].Run.ApprovedBy != "bob" {
		t.Errorf("heard %+v", heard)
	}
	b.reopen()
	run, err := b.GetRun(t.Context(), "R")
	if err != nil || run.ApprovedBy != "bob" || run.RequestedBy != "ada" {
		t.Errorf("%+v, %v", run, err)
	}
	a, err := b.GetApproval(t.Context(), "A1")
	if err != nil || a.State != store.ApprovalApproved || a.RunID != "R" || a.DecidedBy != "bob" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, found, err := b.FindRequest(t.Context(), "ada", "q1"); err != nil || found.RunID != "R" {
		t.Errorf("the request made %+v, %v", found, err)
	}
	var got []string
	for _, e := range b.entries("") {
		got = append(got, fmt.Sprintf("%s %s %s: %s", e.Actor, e.Action, e.Subject, e.Detail))
	}
	want := []string{
		"ada approval_asked A1: run, 3 stores, content sha256 ch, until 2026-09-17T03:00:00Z",
		"ada run_created R: job collect_log v1, 3 targets, 3 tasks, request q1 with sha256 rh, approved by bob under A1, reason: morning check",
		"bob approval_approved A1: run of ada, content sha256 ch, run R",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOrdinaryRunNamesNoApprover(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if run := b.create(1, func(r *store.Run) { r.ApprovedBy = "mallory" }); run.ApprovedBy != "" {
		t.Errorf("%+v", run)
	}
}

func TestNobodyApprovesTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask("A1")
	b.ask("A2", forKeys, func(a *store.Approval) { a.RequestID = "q2" })
	if _, err := b.approve("A1", "ada", "R", t0); !errors.Is(err, store.ErrSamePerson) {
		t.Errorf("a run: %v", err)
	}
	if _, err := b.DecideApproval(t.Context(), "A2", "ada", store.ApprovalApproved, "", t0); !errors.Is(err, store.ErrSamePerson) {
		t.Errorf("keys: %v", err)
	}
	if _, err := b.DecideApproval(t.Context(), "A1", "bob", store.ApprovalApproved, "", t0); err == nil || !strings.Contains(err.Error(), "a run is approved by creating it") {
		t.Errorf("a run without a run: %v", err)
	}
	if _, err := b.approve("A2", "bob", "R", t0); err == nil || !strings.Contains(err.Error(), "is not for a run") {
		t.Errorf("a run under keys: %v", err)
	}
	if b.state("A1") != store.ApprovalPending || b.state("A2") != store.ApprovalPending || b.rowsOf("runs") != 0 {
		t.Errorf("%s, %s, %d runs", b.state("A1"), b.state("A2"), b.rowsOf("runs"))
	}
	if a, err := b.DecideApproval(t.Context(), "A2", "bob", store.ApprovalApproved, "", t0); err != nil || a.State != store.ApprovalApproved {
		t.Errorf("keys by another: %+v, %v", a, err)
	}
	if _, err := b.DecideApproval(t.Context(), "none", "bob", store.ApprovalRejected, "", t0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

func TestApprovedRunThatCannotBeCreatedLeavesTheApprovalPending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask("A1")
	places, tasks := targets(3)
	tasks[2].TaskID = tasks[0].TaskID
	if _, err := b.CreateApprovedRun(t.Context(), "A1", "bob", newRun("R"), places, tasks, store.Request{}, t0); err == nil {
		t.Fatal("it was created")
	}
	if b.state("A1") != store.ApprovalPending || b.rowsOf("runs") != 0 || b.rowsOf("audit") != 1 || len(b.heard()) != 0 {
		t.Errorf("%s, %d runs, %d entries", b.state("A1"), b.rowsOf("runs"), b.rowsOf("audit"))
	}
}

func TestApprovalIsVoidOnceItsRequestMadeARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask("A1")
	places, tasks := targets(1)
	if _, err := b.CreateRun(t.Context(), newRun("R1"), places, tasks, store.Request{User: "ada", RequestID: "q1", ContentHash: "rh"}, t0); err != nil {
		t.Fatal(err)
	}
	got, err := b.approve("A1", "bob", "R2", t0)
	if err != nil || !got.Duplicate || got.Run.RunID != "R1" || b.state("A1") != store.ApprovalVoid || b.rowsOf("runs") != 1 {
		t.Errorf("%+v, %v, %s", got, err, b.state("A1"))
	}
}

// TestOneDecisionOfMany: approvers, rejecters and the clock at once.
func TestOneDecisionOfMany(t *testing.T) {
	t.Parallel()
	for round := range 8 {
		b := setup(t)
		b.ask("A1")
		var mu sync.Mutex
		var won []string
		done := func(what string, err error) {
			if err != nil && !errors.Is(err, store.ErrDecided) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, what)
			}
		}
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				_, err := b.approve("A1", fmt.Sprintf("bob%d", i), fmt.Sprintf("R%d", i), t0)
				done("approved", err)
			})
			wg.Go(func() {
				_, err := b.DecideApproval(t.Context(), "A1", fmt.Sprintf("eve%d", i), store.ApprovalRejected, "", t0)
				done("rejected", err)
			})
		}
		wg.Wait()
		if len(won) != 1 || b.state("A1") != won[0] || b.rowsOf("runs") != strings.Count(won[0], "approved") {
			t.Errorf("round %d: %v won, it is %s with %d runs", round, won, b.state("A1"), b.rowsOf("runs"))
		}
		intact(t, b.path, 2+strings.Count(won[0], "approved"))
	}
}

func TestApprovalsAreHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ask("A1")
	if _, err := b.approve("A1", "bob", "R", t0); err != nil {
		t.Fatal(err)
	}
	b.ask("A2")
	for _, statement := range []string{
		`DELETE FROM approvals`,
		`UPDATE approvals SET state = 'rejected', run_id = NULL WHERE approval_id = 'A1'`,
		`UPDATE approvals SET decided_by = 'eve' WHERE approval_id = 'A1'`,
		`UPDATE approvals SET why = 'x' WHERE approval_id = 'A1'`,
		`UPDATE approvals SET content_hash = 'x' WHERE approval_id = 'A2'`,
		`UPDATE approvals SET request = '{}' WHERE approval_id = 'A2'`,
		`UPDATE approvals SET requester = 'eve' WHERE approval_id = 'A2'`,
		`UPDATE approvals SET state = 'approved', decided_at = 1, decided_by = 'ada', run_id = 'R' WHERE approval_id = 'A2'`,
		`UPDATE approvals SET state = 'approved', decided_at = 1, decided_by = 'bob' WHERE approval_id = 'A2'`,
		`UPDATE approvals SET state = 'rejected', decided_at = 1, decided_by = 'bob', run_id = 'R' WHERE approval_id = 'A2'`,
		`UPDATE approvals SET state = 'rejected', decided_at = 1 WHERE approval_id = 'A2'`,
		`UPDATE approvals SET state = 'lost', decided_at = 1, decided_by = 'bob' WHERE approval_id = 'A2'`,
		`INSERT INTO approvals (approval_id, kind, requester, request_id, request_hash, content_hash, request, stores, created_at, expires_at, state, decided_at, decided_by)
			VALUES ('A3', 'run', 'ada', 'q3', '', 'x', '{}', 1, 1, 2, 'rejected', 1, 'bob')`,
		`INSERT INTO approvals (approval_id, kind, requester, request_id, request_hash, content_hash, request, stores, created_at, expires_at)
			VALUES ('A3', 'run', 'ada', 'q1', '', 'x', '{}', 1, 1, 2)`,
		`UPDATE runs SET approved_by = ''`, `UPDATE runs SET approved_by = 'eve'`,
	} {
		if err := tried(t, b.raw(), statement); err == nil {
			t.Errorf("%s was taken", statement)
		}
	}
	if err := tried(t, b.raw(), `UPDATE approvals SET state = 'rejected', decided_at = 1, decided_by = 'bob' WHERE approval_id = 'A2'`); err != nil {
		t.Errorf("a rejection: %v", err)
	}
}

func TestRedactionsAreCountedWithTheAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	a := success(0, 1, `{"a":"`+strings.Repeat("x", 200_000)+`"}`)
	a.Attempt.Redacted = 3
	b.settle(a, t0)
	got, err := b.GetResult(t.Context(), taskID(0), 1)
	if err != nil || got.Redacted != 3 {
		t.Errorf("%d, %v", got.Redacted, err)
	}
	for _, c := range b.heard() {
		if c.Attempt != nil && c.Attempt.Redacted != 3 {
			t.Errorf("heard of %d", c.Attempt.Redacted)
		}
	}
	if err := tried(t, b.raw(), `UPDATE attempts SET redacted = 0`); err == nil {
		t.Error("it was rewritten")
	}
}

func TestTheLastApprovalOfARequestIsFoundWhateverBecameOfIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.LastApproval(t.Context(), "ada", "q1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before any: %v", err)
	}
	b.ask("A1")
	for i, id := range []string{"A1", "A2", "A3"} {
		if i > 0 {
			b.ask(id, func(a *store.Approval) { a.CreatedAt = at(time.Duration(i) * time.Second) })
		}
		if last, err := b.LastApproval(t.Context(), "ada", "q1"); err != nil || last.ApprovalID != id || last.State != store.ApprovalPending {
			t.Errorf("%+v, %v", last, err)
		}
		if _, err := b.DecideApproval(t.Context(), id, "bob", store.ApprovalRejected, "no", at(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if last, err := b.LastApproval(t.Context(), "ada", "q1"); err != nil || last.ApprovalID != id || last.State != store.ApprovalRejected || last.Why != "no" {
			t.Errorf("%+v, %v", last, err)
		}
	}
	for _, c := range [][2]string{{"eve", "q1"}, {"ada", "q2"}, {"ada", ""}} {
		if _, err := b.LastApproval(t.Context(), c[0], c[1]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %v", c, err)
		}
	}
}
