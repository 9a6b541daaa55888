package store_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// leaseEnd is headquarters' word that an attempt was silent for too long.
func leaseEnd(i, attempt int, event task.Event) store.Answer {
	a := failure(i, attempt, event)
	a.Reason = task.ReasonLeaseExpired
	a.Attempt.Answer, a.Attempt.SHA256, a.Attempt.Executed = "", "", false
	a.Attempt.Failure = &protocol.Failure{Code: protocol.CodeLeaseExpired, Message: "silent"}
	return a
}

func TestSettle(t *testing.T) {
	t.Parallel()
	granted := func(b *bundle) { b.grant(0, t0) }
	succeeded := func(b *bundle) { b.grant(0, t0); b.settle(success(0, 1, `{"a":1}`), t0) }
	leaseEnded := func(b *bundle) { b.grant(0, t0); b.settle(leaseEnd(0, 1, task.Fail), t0) }
	second := func(b *bundle) { leaseEnded(b); b.grant(0, at(time.Minute)) }
	other := func(a store.Answer) store.Answer { a.Attempt.TerminalID = "pos2"; return a }
	elsewhere := func(a store.Answer) store.Answer { a.Attempt.StoreID = storeID(1); return a }
	failedOpen := task.State{Status: task.Failed, Attempt: 1}
	done := task.State{Status: task.Succeeded, Attempt: 1, Settled: true}
	tests := []struct {
		name    string
		prepare func(*bundle)
		answer  store.Answer
		want    store.Settled // without Task
		state   task.State
	}{
		{"success", granted, success(0, 1, `{}`), store.Settled{Applied: true}, done},
		{"success without a grant", func(*bundle) {}, success(0, 1, `{}`), store.Settled{Refusal: protocol.CodeStale}, task.State{Status: task.Pending}},
		{"unknown task", granted, success(9, 1, `{}`), store.Settled{Refusal: protocol.CodeNotFound}, task.State{Status: task.Running, Attempt: 1}},
		{"another store's", granted, elsewhere(success(0, 1, `{}`)), store.Settled{Refusal: protocol.CodeNotFound}, task.State{Status: task.Running, Attempt: 1}},
		{"another terminal's", granted, other(success(0, 1, `{}`)), store.Settled{Refusal: protocol.CodeStale}, task.State{Status: task.Running, Attempt: 1}},
		{"an attempt never granted", granted, success(0, 2, `{}`), store.Settled{Refusal: protocol.CodeStale}, task.State{Status: task.Running, Attempt: 1}},
		{"the same again", succeeded, success(0, 1, `{"a":1}`), store.Settled{Duplicate: true}, done},
		{"other content again", succeeded, success(0, 1, `{"a":2}`), store.Settled{Refusal: protocol.CodeSettled}, done},
		{"failure after success", succeeded, failure(0, 1, task.Fail), store.Settled{Refusal: protocol.CodeSettled}, done},
		{"lease end after success", succeeded, leaseEnd(0, 1, task.Fail), store.Settled{Refusal: protocol.CodeSettled}, done},
		{"success after lease end", leaseEnded, success(0, 1, `{}`), store.Settled{Refusal: protocol.CodeStale}, failedOpen},
		{"lease end twice", leaseEnded, leaseEnd(0, 1, task.Fail), store.Settled{Refusal: protocol.CodeStale}, failedOpen},
		{"refusal after lease end", leaseEnded, failure(0, 1, task.GiveUp), store.Settled{Refusal: protocol.CodeStale}, failedOpen},
		{"headquarters ends the wait", leaseEnded, leaseEnd(0, 1, task.GiveUp), store.Settled{Applied: true}, task.State{Status: task.Failed, Attempt: 1, Settled: true}},
		{"old attempt while the next runs", second, success(0, 1, `{}`), store.Settled{Refusal: protocol.CodeStale}, task.State{Status: task.Running, Attempt: 2}},
		{"next attempt", second, success(0, 2, `{}`), store.Settled{Applied: true}, task.State{Status: task.Succeeded, Attempt: 2, Settled: true}},
		{"failure with a retry", granted, failure(0, 1, task.Fail), store.Settled{Applied: true}, failedOpen},
		{"failure for good", granted, failure(0, 1, task.GiveUp), store.Settled{Applied: true}, task.State{Status: task.Failed, Attempt: 1, Settled: true}},
		{"the last attempt fails", second, failure(0, 2, task.Fail), store.Settled{Applied: true}, task.State{Status: task.Failed, Attempt: 2, Settled: true}},
		{"failure again after its retry began", func(b *bundle) {
			b.grant(0, t0)
			b.settle(failure(0, 1, task.Fail), t0)
			b.grant(0, at(time.Minute))
		}, failure(0, 1, task.Fail), store.Settled{Duplicate: true}, task.State{Status: task.Running, Attempt: 2}},
		{"after a cancel", func(b *bundle) { b.grant(0, t0); b.cancel() }, success(0, 1, `{}`),
			store.Settled{Refusal: protocol.CodeSettled}, task.State{Status: task.Cancelled, Attempt: 1, Settled: true}},
		{"the terminal was told to stop", granted, func() store.Answer {
			a := failure(0, 1, task.Cancel)
			a.Attempt.Answer, a.Reason = protocol.AnswerCancelled, task.ReasonByUser
			return a
		}(), store.Settled{Applied: true}, task.State{Status: task.Cancelled, Attempt: 1, Settled: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.create(2)
			tt.prepare(b)
			b.settleAndCompare(tt.answer, tt.want, tt.state)
		})
	}
}

// settleAndCompare settles an answer about task 0 and compares what it says,
// what is stored and what observers hear with each other and with the wanted.
func (b *bundle) settleAndCompare(answer store.Answer, want store.Settled, state task.State) {
	t := b.t
	t.Helper()
	before, err := b.GetTask(t.Context(), taskID(0))
	if err != nil {
		t.Fatal(err)
	}
	b.heard()
	got := b.settle(answer, at(2*time.Minute))
	after, err := b.GetTask(t.Context(), taskID(0))
	if err != nil || after.State != state {
		t.Errorf("state %+v, want %+v, %v", after.State, state, err)
	}
	if got.Refusal != protocol.CodeNotFound && fmt.Sprintf("%+v", got.Task) != fmt.Sprintf("%+v", after) {
		t.Errorf("told\n%+v, stored\n%+v", got.Task, after)
	}
	got.Task = store.Task{}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	changes := b.heard()
	if !want.Applied {
		if len(changes) != 0 || fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", after) {
			t.Errorf("it changed %+v to %+v and told %+v", before, after, changes)
		}
		return
	}
	if len(changes) != 1 || changes[0].Kind != store.TaskMoved || changes[0].From != before.State || changes[0].Task.State != state {
		t.Fatalf("told %+v", changes)
	}
	if next, err := changes[0].From.Next(changes[0].Event); err != nil || next != state {
		t.Errorf("told event %s, which leads to %+v, %v", changes[0].Event, next, err)
	}
	attempts, err := b.ListAttempts(t.Context(), taskID(0))
	if err != nil || encoded(t, withTimes(*changes[0].Attempt, attempts)) != encoded(t, attempts[len(attempts)-1]) {
		t.Errorf("told of attempt\n%s, stored\n%s, %v", encoded(t, changes[0].Attempt), encoded(t, attempts), err)
	}
}

// withTimes is an attempt that was told of with the times of before its answer, where
// they were not read for that.
func withTimes(told store.Attempt, stored []store.Attempt) store.Attempt {
	if told.GrantedAt.IsZero() && told.Attempt <= len(stored) {
		record := stored[told.Attempt-1]
		told.GrantedAt, told.LeaseUntil, told.StartedAt, told.LastSignAt, told.ReadyAt = record.GrantedAt, record.LeaseUntil, record.StartedAt, record.LastSignAt, record.ReadyAt
	}
	return told
}

func encoded(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnswerIsStoredByteForByte(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	exit := 3
	a := success(0, 1, `{"n":9007199254740993,"x":1.0,"e":1e-7,"html":"<b>&\u2028","names":["杭州","🏪"]}`)
	a.Attempt.Columns = []json.RawMessage{json.RawMessage(`1.0`), json.RawMessage(`"<b>&"`), json.RawMessage(`null`), json.RawMessage("\"\u2028\"")}
	a.Attempt.ExitCode, a.Attempt.OutputTail, a.Attempt.Duration = &exit, "tail\x1b[0m", 1500*time.Millisecond
	a.Attempt.TerminalFrom, a.Attempt.TerminalTo = at(-time.Hour), at(-time.Minute)
	b.settle(a, at(time.Second))
	b.reopen()
	got, err := b.GetResult(t.Context(), taskID(0), 1)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Result) != string(a.Attempt.Result) || got.Bytes != int64(len(a.Attempt.Result)) || got.SHA256 != a.Attempt.SHA256 {
		t.Errorf("result %s, %d bytes, %s", got.Result, got.Bytes, got.SHA256)
	}
	if fmt.Sprintf("%s", got.Columns) != fmt.Sprintf("%s", a.Attempt.Columns) {
		t.Errorf("columns %s, want %s", got.Columns, a.Attempt.Columns)
	}
	if *got.ExitCode != 3 || got.OutputTail != a.Attempt.OutputTail || got.Duration != a.Attempt.Duration || !got.Executed ||
		got.Answer != protocol.AnswerSucceeded || got.TerminalFrom != at(-time.Hour) || got.TerminalTo != at(-time.Minute) ||
		got.ReceivedAt != at(time.Second) || got.Failure != nil || got.Late {
		t.Errorf("%+v", got)
	}
	listed, err := b.ListAttempts(t.Context(), taskID(0))
	if err != nil || len(listed) != 1 || listed[0].Result != nil || listed[0].SHA256 != got.SHA256 {
		t.Errorf("%+v, %v", listed, err)
	}
}

// TestAnAttemptWithoutASignStartedByItsAnswer: as long before it as the terminal says
// that it took, by headquarters' clock and not before the grant.
func TestAnAttemptWithoutASignStartedByItsAnswer(t *testing.T) {
	t.Parallel()
	came := at(10 * time.Second)
	for name, c := range map[string]struct {
		change func(*store.Attempt)
		sign   time.Time
		want   time.Time
	}{
		"took no time":          {func(*store.Attempt) {}, time.Time{}, came},
		"took 400 ms":           {func(a *store.Attempt) { a.Duration = 400 * time.Millisecond }, time.Time{}, came.Add(-400 * time.Millisecond)},
		"took longer than that": {func(a *store.Attempt) { a.Duration = time.Hour }, time.Time{}, t0},
		"was cut off": {func(a *store.Attempt) { a.TerminalFrom, a.TerminalTo = at(-time.Hour), at(3*time.Second-time.Hour) },
			time.Time{}, at(7 * time.Second)},
		"a clock set back":  {func(a *store.Attempt) { a.TerminalFrom, a.TerminalTo = at(time.Hour), t0 }, time.Time{}, came},
		"was never started": {func(a *store.Attempt) { a.Executed = false }, time.Time{}, time.Time{}},
		"gave a sign":       {func(a *store.Attempt) { a.Duration = 9 * time.Second }, at(2 * time.Second), at(2 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.create(1)
			b.grant(0, t0)
			if !c.sign.IsZero() {
				if ok, err := b.Sign(t.Context(), store.Sign{TaskID: taskID(0), Attempt: 1, StoreID: storeID(0), TerminalID: "pos1", LeaseUntil: came}, c.sign); err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
			a := success(0, 1, `{}`)
			c.change(&a.Attempt)
			b.settle(a, came)
			attempts, err := b.ListAttempts(t.Context(), taskID(0))
			if err != nil || len(attempts) != 1 || attempts[0].StartedAt != c.want || attempts[0].LastSignAt != c.sign {
				t.Errorf("stored %+v, %v, want it started at %v", attempts, err, c.want)
			}
		})
	}
}

func TestFailureIsStoredWithItsTask(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	got := b.settle(failure(0, 1, task.Fail), at(time.Second)).Task
	if got.LastCode != protocol.CodeExecution || got.Reason != task.ReasonExecutionError || got.NextAttemptAt != at(time.Minute) || !got.SettledAt.IsZero() {
		t.Errorf("%+v", got)
	}
	a, err := b.GetResult(t.Context(), taskID(0), 1)
	if err != nil || *a.Failure != (protocol.Failure{Code: protocol.CodeExecution, Message: "exit 1"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if k := b.grant(0, at(time.Minute)); k.Reason != task.ReasonNone || !k.NextAttemptAt.IsZero() || k.LastCode != protocol.CodeExecution {
		t.Errorf("granted again %+v", k)
	}
}

// TestARefusedSuccessIsNoDamage: its record has the hash of what was sent and no
// result, which is no reason to read or back up nothing.
func TestARefusedSuccessIsNoDamage(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	defer b.close()
	b.create(1)
	b.grant(0, t0)
	a := success(0, 1, `{"another":"field"}`)
	a.Event, a.RetryAt, a.Rejected = task.Fail, at(time.Minute), []byte(a.Attempt.Result)
	a.Attempt.Result, a.Attempt.Failure = nil, &protocol.Failure{Code: protocol.CodeInvalidResult, Message: "no such field"}
	b.settle(a, t0)
	if got, err := b.GetResult(t.Context(), taskID(0), 1); err != nil || got.Answer != protocol.AnswerSucceeded || got.Failure == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := store.MakeBackup(t.Context(), b.path, filepath.Join(t.TempDir(), "backup.db")); err != nil {
		t.Error(err)
	}
}

func TestRefusedPayloadIsKeptOnceAndBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	a := failure(0, 1, task.Fail)
	a.Attempt.Failure.Code = protocol.CodeInvalidResult
	a.Rejected = []byte(strings.Repeat("\xff", protocol.MaxPayloadBytes+100))
	b.settle(a, t0)
	if got := b.settle(a, t0); !got.Duplicate {
		t.Errorf("the same again: %+v", got)
	}
	rejected, err := b.ListRejected(t.Context(), taskID(0))
	if err != nil || len(rejected) != 1 {
		t.Fatal(len(rejected), err)
	}
	r := rejected[0]
	if r.Code != protocol.CodeInvalidResult || r.Bytes != protocol.MaxPayloadBytes+100 || len(r.Payload) != protocol.MaxPayloadBytes ||
		r.Failure.Code != protocol.CodeInvalidResult || r.TerminalID != "pos1" {
		t.Errorf("%s %d %d %+v", r.Code, r.Bytes, len(r.Payload), r.Failure)
	}
	for i := range 50 { // stale ones, each with another hash
		a.Attempt.Attempt, a.Attempt.SHA256, a.Rejected = 7, fmt.Sprint(i), []byte("x")
		if got := b.settle(a, t0); got.Refusal != protocol.CodeStale {
			t.Fatalf("%+v", got)
		}
	}
	if rejected, err := b.ListRejected(t.Context(), taskID(0)); err != nil || len(rejected) > 20 {
		t.Errorf("%d kept, %v", len(rejected), err)
	}
}

func TestLatePolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		policy job.LatePolicy
		want   store.Settled
		state  task.State
		stored bool
		kept   int
	}{
		{job.AcceptAndRevise, store.Settled{Applied: true, Late: true}, task.State{Status: task.Succeeded, Attempt: 1, Settled: true}, true, 0},
		{job.RecordOnly, store.Settled{Applied: true, Recorded: true, Late: true}, task.State{Status: task.Running, Attempt: 1}, true, 0},
		{job.Reject, store.Settled{Refusal: protocol.CodeLate, Late: true}, task.State{Status: task.Running, Attempt: 1}, false, 1},
	}
	for _, tt := range tests {
		t.Run(string(tt.policy), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.create(1, func(r *store.Run) { r.Policy.Late = tt.policy })
			b.grant(0, t0)
			b.closeBarrier(at(2 * time.Minute))
			got := b.settle(success(0, 1, `{"late":1}`), at(3*time.Minute))
			state := got.Task.State
			got.Task = store.Task{}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) || state != tt.state {
				t.Errorf("got %+v %+v, want %+v %+v", got, state, tt.want, tt.state)
			}
			again := b.settle(success(0, 1, `{"late":1}`), at(4*time.Minute))
			if again.Duplicate != tt.stored {
				t.Errorf("again: %+v", again)
			}
			a, err := b.GetResult(t.Context(), taskID(0), 1)
			if err != nil || (string(a.Result) == `{"late":1}`) != tt.stored || a.Late != tt.stored {
				t.Errorf("%+v, %v", a, err)
			}
			rejected, err := b.ListRejected(t.Context(), taskID(0))
			if err != nil || len(rejected) != tt.kept {
				t.Errorf("%d kept, %v", len(rejected), err)
			}
			// Headquarters' own word is never late, and keeps a recorded answer.
			ended := b.settle(leaseEnd(0, 1, task.GiveUp), at(5*time.Minute))
			if tt.policy == job.AcceptAndRevise {
				if ended.Refusal != protocol.CodeSettled {
					t.Errorf("lease end: %+v", ended)
				}
				return
			}
			if !ended.Applied || ended.Late || !ended.Task.State.Settled {
				t.Errorf("lease end: %+v", ended)
			}
			if again := b.settle(success(0, 1, `{"late":1}`), at(6*time.Minute)); again.Duplicate != tt.stored {
				t.Errorf("after the lease end: %+v", again)
			}
		})
	}
}

func TestCancelWithdrawsWhatIsOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(5)
	b.grant(0, t0)
	b.settle(success(0, 1, `{}`), t0)
	b.grant(1, t0)
	b.grant(2, t0)
	b.settle(failure(2, 1, task.Fail), t0)
	b.heard()
	cancelled, settled, err := b.Cancel(t.Context(), "R", []string{storeID(0), storeID(1)}, task.ReasonByUser, "ada", at(time.Second))
	if err != nil || len(cancelled) != 1 || settled != 1 || cancelled[0].TaskID != taskID(1) {
		t.Fatalf("%+v, %d, %v", cancelled, settled, err)
	}
	changes := b.heard()
	if len(changes) != 1 || changes[0].From.Status != task.Running || changes[0].Attempt == nil || changes[0].Attempt.TerminalID != "pos1" {
		t.Errorf("told %+v", changes)
	}
	cancelled, settled, err = b.Cancel(t.Context(), "R", nil, task.ReasonRunAborted, "ada", at(2*time.Second))
	if err != nil || len(cancelled) != 3 || settled != 2 {
		t.Fatalf("%+v, %d, %v", cancelled, settled, err)
	}
	for _, k := range cancelled {
		stored, err := b.GetTask(t.Context(), k.TaskID)
		if err != nil || fmt.Sprintf("%+v", stored) != fmt.Sprintf("%+v", k) || k.Reason != task.ReasonRunAborted || !k.NextAttemptAt.IsZero() {
			t.Errorf("told\n%+v, stored\n%+v, %v", k, stored, err)
		}
	}
	if cancelled, settled, err := b.Cancel(t.Context(), "R", nil, task.ReasonByUser, "ada", at(3*time.Second)); err != nil || len(cancelled) != 0 || settled != 5 {
		t.Errorf("again: %+v, %d, %v", cancelled, settled, err)
	}
	if n := b.rowsOf("audit"); n != 4 {
		t.Errorf("%d audit lines, want 1 for the run and 3 for the cancels", n)
	}
}

func TestCloseRunEndsEverythingOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(3)
	b.grant(0, t0)
	b.heard()
	cancelled, err := b.CloseRun(t.Context(), "R", task.ReasonExpired, at(time.Hour))
	if err != nil || len(cancelled) != 3 || cancelled[0].Reason != task.ReasonExpired {
		t.Fatalf("%+v, %v", cancelled, err)
	}
	if again, err := b.CloseRun(t.Context(), "R", task.ReasonExpired, at(2*time.Hour)); err != nil || len(again) != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	run, err := b.GetRun(t.Context(), "R")
	if err != nil || run.ClosedAt != at(time.Hour) || run.Phase() != protocol.PhaseClosed {
		t.Errorf("%+v, %v", run, err)
	}
	if open, err := b.ListOpenRuns(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("%+v, %v", open, err)
	}
	changes := b.heard()
	if len(changes) != 4 || changes[3].Kind != store.RunClosed || changes[3].Run.ClosedAt != at(time.Hour) {
		t.Errorf("told %+v", changes)
	}
}

func TestTheRunsThatWereClosedLast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if runs, err := b.ListRecentlyClosedRuns(t.Context()); err != nil || len(runs) != 0 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	b.create(1)
	const columns = "job, job_version, requested_by, reason, input, policy, columns, targets, created_at, barrier_at, makeup_until"
	closed := func(name string, n int, ago time.Duration) {
		b.exec(fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO runs (run_id, closed_at, %s) SELECT printf('%s%%03d', i), %d - i, %s FROM runs, n WHERE run_id = 'R'`,
			n, columns, name, t0.Add(-ago).UnixMilli(), columns))
	}
	const week = 7 * 24 * time.Hour
	closed("new", 50, 0)
	closed("old", 1, week)
	closed("week", 1, week-time.Millisecond)
	ids := func() (all []string) {
		t.Helper()
		runs, err := b.ListRecentlyClosedRuns(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			all = append(all, r.RunID)
		}
		return all
	}
	if got := ids(); len(got) != 51 || got[0] != "new001" || got[49] != "new050" || got[50] != "week001" {
		t.Errorf("got %q", got)
	}
	closed("more", 300, time.Hour)
	if got := ids(); len(got) != 200 || got[49] != "new050" || got[50] != "more001" || got[199] != "more150" {
		t.Errorf("got %q", got)
	}
	b.exec(`UPDATE runs SET targets = 99999 WHERE run_id = 'new002'`)
	if got := ids(); len(got) != 2 || got[1] != "new002" {
		t.Errorf("with 100,000 targets in two runs: %q", got)
	}
	b.exec(`UPDATE runs SET targets = 100001 WHERE run_id = 'new001'`)
	if got := ids(); len(got) != 1 || got[0] != "new001" {
		t.Errorf("with more than 100,000 targets in one run: %q", got)
	}
}
