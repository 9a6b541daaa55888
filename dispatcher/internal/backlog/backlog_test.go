package backlog_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/backlog"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

const day = 24 * time.Hour

// desk is a backlog over a bench.
type desk struct {
	*steptest.Bench
	*backlog.Backlog
	t testing.TB
}

func open(t testing.TB, path string) *desk {
	t.Helper()
	d := &desk{t: t}
	d.Bench = steptest.Open(t, path, func(c []store.Change) { d.Changed(c) })
	d.Backlog = backlog.New(backlog.Config{Tasks: d.Store, Now: time.Now, Logger: d.Logger})
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Backlog.Stop)
	return d
}

func (d *desk) close() {
	d.Backlog.Stop()
	d.Bench.Close()
}

// judge makes the first revision of a run.
func (d *desk) judge(run string) {
	d.t.Helper()
	snap, err := d.Store.CloseBarrier(d.t.Context(), run, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	var rows []store.OutcomeRow
	for c, err := range snap.Candidates() {
		if err != nil {
			d.t.Fatal(err)
		}
		row := store.OutcomeRow{StoreID: c.Place.StoreID, Outcome: task.OutcomeOffline, Reason: task.ReasonOfflineWholeWindow, Row: json.RawMessage(`{}`)}
		rows = append(rows, row)
	}
	if err := snap.Close(); err != nil {
		d.t.Fatal(err)
	}
	rev := store.NewRevision{RunID: run, Revision: 1, Why: string(protocol.WhyBarrier), AsOf: time.Now(), Rows: rows}
	if err := d.Store.AddRevision(d.t.Context(), rev, time.Now()); err != nil {
		d.t.Fatal(err)
	}
}

// grant asks for the task of the i-th store.
func (d *desk) grant(run string, i int) store.Granted {
	d.t.Helper()
	known, err := d.Store.GetTask(d.t.Context(), steptest.TaskID(run, i))
	if err != nil {
		d.t.Fatal(err)
	}
	got, err := d.Store.Grant(d.t.Context(), store.Grant{TaskID: steptest.TaskID(run, i), StoreID: steptest.StoreID(i),
		TerminalID: "pos", LeaseUntil: time.Now().Add(time.Minute), Known: &known}, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// end ends a running attempt: with code, or well for "".
func (d *desk) end(run string, i int, code protocol.Code) {
	d.t.Helper()
	a := store.Answer{Event: task.Succeed, Attempt: store.Attempt{TaskID: steptest.TaskID(run, i), Attempt: 1,
		StoreID: steptest.StoreID(i), TerminalID: "pos", Answer: protocol.AnswerSucceeded, SHA256: "x"}}
	if code != "" {
		a.Event, a.Attempt.Answer, a.Attempt.Failure = task.Fail, protocol.AnswerFailed, &protocol.Failure{Code: code}
	}
	if code == protocol.CodeLeaseExpired {
		a.Attempt.Answer = ""
	}
	if got, err := d.Store.Settle(d.t.Context(), a, time.Now()); err != nil || !got.Applied {
		d.t.Fatalf("%+v, %v", got, err)
	}
}

func (d *desk) is(run string, i int, status task.Status, reason task.Reason) {
	d.t.Helper()
	if got := d.Task(steptest.TaskID(run, i)); got.State.Status != status || got.Reason != reason {
		d.t.Errorf("%s is %s %q, want %s %q", got.TaskID, got.State.Status, got.Reason, status, reason)
	}
}

func keeping(b job.BacklogPolicy) job.Policy {
	p := steptest.Policy()
	p.Makeup, p.Backlog = job.MaxMakeup, b
	return p
}

func settle() { time.Sleep(10 * time.Second); synctest.Wait() }

// TestAMonthOfDailyRunsLeavesTheNewest, over restarts in between; with backlog
// all, every one stays.
func TestAMonthOfDailyRunsLeavesTheNewest(t *testing.T) {
	for _, policy := range []job.BacklogPolicy{job.BacklogNewest, job.BacklogAll, ""} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "muster.db")
				d := open(t, path)
				days := map[job.BacklogPolicy]int{job.BacklogNewest: 30, job.BacklogAll: 6, "": 3}[policy]
				for n := range days {
					run := fmt.Sprintf("r%02d", n)
					d.Create(run, 2, keeping(policy))
					if got := d.grant(run, 1); got.Refusal != "" { // it is there each day
						t.Fatalf("%s: %+v", run, got)
					}
					d.end(run, 1, "")
					time.Sleep(2 * time.Minute)
					d.judge(run)
					if n%7 == 3 {
						d.close()
						d = open(t, path)
					}
					time.Sleep(day)
				}
				settle()
				open := 0
				for n := range days - 1 {
					run := fmt.Sprintf("r%02d", n)
					if policy != job.BacklogNewest {
						d.is(run, 0, task.Pending, "")
						continue
					}
					d.is(run, 0, task.Cancelled, task.ReasonSuperseded)
					if got := d.grant(run, 0); got.Refusal != protocol.CodeSettled {
						t.Errorf("a claim for %s: %+v", run, got)
					}
				}
				for k, err := range d.Store.OpenTasks(t.Context(), "", steptest.StoreID(0)) {
					if err != nil {
						t.Fatal(err)
					}
					if open++; policy == job.BacklogNewest && k.RunID != "r29" {
						t.Errorf("%s is open", k.TaskID)
					}
				}
				want := days
				if policy == job.BacklogNewest {
					want = 1
				}
				if open != want {
					t.Errorf("%d are open, want %d", open, want)
				}
			})
		})
	}
}

// TestWhatIsNotSuperseded: before the barrier nothing is, nor what runs or may
// have run unheard, nor what no newer run took the place of.
func TestWhatIsNotSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, filepath.Join(t.TempDir(), "muster.db"))
		const stores = 6
		d.Create("old", stores, keeping(job.BacklogNewest))
		d.grant("old", 1)
		d.grant("old", 2)
		d.end("old", 2, protocol.CodeLeaseExpired)
		d.grant("old", 3)
		d.end("old", 3, protocol.CodeExecution)
		time.Sleep(time.Second)
		d.Create("new", stores-1, keeping(job.BacklogNewest))
		if _, _, err := d.Store.Cancel(t.Context(), "new", []string{steptest.StoreID(4)}, task.ReasonByUser, "tech", time.Now()); err != nil {
			t.Fatal(err)
		}
		settle()
		d.is("old", 0, task.Pending, "")
		d.judge("old")
		settle()
		d.is("old", 0, task.Cancelled, task.ReasonSuperseded)
		d.is("old", 1, task.Running, "")
		d.is("old", 2, task.Failed, "")
		d.is("old", 3, task.Cancelled, task.ReasonSuperseded)
		d.is("old", 4, task.Pending, "") // the newer one was withdrawn
		d.is("old", 5, task.Pending, "") // it is not in the newer run
		for i := range stores - 2 {
			d.is("new", i, task.Pending, "")
		}
		if got := d.grant("old", 2); got.Refusal != "" || got.Task.State.Attempt != 2 {
			t.Errorf("what may have run unheard is refused: %+v", got)
		}
	})
}

// TestAClaimIsRefusedBeforeTheBacklogCameToIt, and tells that the task moved.
func TestAClaimIsRefusedBeforeTheBacklogCameToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, filepath.Join(t.TempDir(), "muster.db"))
		d.Create("old", 1, keeping(job.BacklogNewest))
		d.judge("old")
		settle()
		time.Sleep(day)
		d.Create("new", 1, keeping(job.BacklogNewest))
		if got := d.grant("old", 0); got.Refusal != protocol.CodeSettled || got.Task.State.Status != task.Cancelled {
			t.Errorf("%+v", got)
		}
		d.is("old", 0, task.Cancelled, task.ReasonSuperseded)
		if got := d.grant("new", 0); got.Refusal != "" {
			t.Errorf("the newest is refused: %+v", got)
		}
	})
}

// TestAnotherTerminalsTaskTakesNoPlace: what is meant for one terminal is not
// made good by another.
func TestAnotherTerminalsTaskTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, filepath.Join(t.TempDir(), "muster.db"))
		d.Address("pos1").Create("old", 1, keeping(job.BacklogNewest))
		d.judge("old")
		time.Sleep(day)
		d.Address("pos2").Create("new", 1, keeping(job.BacklogNewest))
		settle()
		d.is("old", 0, task.Pending, "")
	})
}

func TestStopMayComeTwiceOrBeforeStart(t *testing.T) {
	b := backlog.New(backlog.Config{})
	b.Stop()
	b.Stop()
}
