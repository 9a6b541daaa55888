package rollcall_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// order makes a run of a job over some stores, of which some answer well.
func (o *office) order(id, name string, ids []string, well ...string) {
	o.t.Helper()
	now := time.Now()
	run := store.Run{RunID: id, Job: name, JobVersion: 1, RequestedBy: "ada", Input: json.RawMessage(`{}`),
		Policy:    job.Policy{Attempts: 1, Lease: 30 * time.Second, Late: job.AcceptAndRevise, Quorum: 0.5},
		CreatedAt: now, BarrierAt: now.Add(2 * time.Minute), MakeupUntil: now.Add(time.Hour)}
	var places []store.Place
	var tasks []store.NewTask
	for _, shop := range ids {
		places = append(places, store.Place{StoreID: shop})
		tasks = append(tasks, store.NewTask{TaskID: id + "-" + shop, StoreID: shop})
	}
	if _, err := o.store.CreateRun(o.t.Context(), run, places, tasks, store.Request{}, now); err != nil {
		o.t.Fatal(err)
	}
	for _, shop := range well {
		o.answer(id+"-"+shop, shop)
	}
}

// answer lets a store do its task well.
func (o *office) answer(taskID, storeID string) {
	o.t.Helper()
	ctx, now := o.t.Context(), time.Now()
	granted, err := o.store.Grant(ctx, store.Grant{TaskID: taskID, StoreID: storeID, TerminalID: "pos1", LeaseUntil: now.Add(30 * time.Second)}, now)
	if err != nil || granted.Refusal != "" {
		o.t.Fatalf("grant of %s: %s, %v", taskID, granted.Refusal, err)
	}
	if _, err := o.store.Settle(ctx, store.Answer{Event: task.Succeed, Attempt: store.Attempt{TaskID: taskID, Attempt: 1, StoreID: storeID,
		TerminalID: "pos1", Answer: protocol.AnswerSucceeded, Executed: true, Result: json.RawMessage(`{}`), SHA256: strings.Repeat("0a", 32)}}, now); err != nil {
		o.t.Fatal(err)
	}
}

// previous is what the JSON report of a revision says of the run before.
func (o *office) previous(id string, revision int) *protocol.Previous {
	o.t.Helper()
	found, err := filepath.Glob(filepath.Join(o.folder, "*", "*", fmt.Sprintf("*_%s_r%d.json", id, revision)))
	if err != nil || len(found) != 1 {
		o.t.Fatalf("report of %s r%d: %v, %v", id, revision, found, err)
	}
	var r protocol.Report
	content := get(o.t, found[0])
	fits(o.t, "report", string(content))
	if err := json.Unmarshal(content, &r); err != nil {
		o.t.Fatal(err)
	}
	return r.Previous
}

func TestAReportIsComparedWithTheJobsRunBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := setup(t)
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		o.order("R1", "probe", []string{"A", "B", "C", "X"}, "A", "C")
		pass(3 * time.Minute)
		o.order("OTHER", "count", []string{"A"}, "A")
		pass(3 * time.Minute)
		o.order("R2", "probe", []string{"A", "B", "C", "D"}, "B", "C", "D")
		pass(3 * time.Minute)
		if p := o.previous("R1", 1); p != nil {
			t.Errorf("the first run has one before: %+v", p)
		}
		if p := o.previous("OTHER", 1); p != nil {
			t.Errorf("the first run of another job has one before: %+v", p)
		}
		p := o.previous("R2", 1)
		if p == nil || p.RunID != "R1" || p.Revision != 1 || p.Targets != 4 || p.Counts.Succeeded != 2 || p.Common != 3 ||
			fmt.Sprint(p.NewlyMissing, p.NewlyMissingIDs, p.Recovered, p.RecoveredIDs) != "1 [A] 1 [B]" {
			t.Errorf("compared with %+v", p)
		}
		// What comes late to the run before is in the next comparison, and changes no older one.
		o.answer("R1-B", "B")
		pass(time.Minute)
		o.order("R3", "probe", []string{"A"}, "A")
		o.answer("R2-A", "A")
		pass(3 * time.Minute)
		if p := o.previous("R2", 2); p == nil || p.RunID != "R1" || p.Revision != 2 || p.Counts.Succeeded != 3 || fmt.Sprint(p.NewlyMissingIDs, p.RecoveredIDs) != "[] []" {
			t.Errorf("the second revision is compared with %+v", p)
		}
		if p := o.previous("R3", 1); p == nil || p.RunID != "R2" || p.Common != 1 || p.Targets != 4 || fmt.Sprint(p.RecoveredIDs) != "[A]" {
			t.Errorf("the third run is compared with %+v", p)
		}
	})
}
