package ordering_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/internal/task"
)

// reported gives a run its first revision. Outcomes are by store id.
func (d *desk) reported(runID string, outcomes map[string]task.Outcome) {
	d.t.Helper()
	snap, err := d.Store.CloseBarrier(d.t.Context(), runID, d.clock())
	if err == nil {
		err = snap.Close()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	rev := store.NewRevision{RunID: runID, Revision: 1, Why: string(protocol.WhyBarrier), AsOf: d.clock()}
	for id, outcome := range outcomes {
		reason := task.Reason("")
		if outcome != task.OutcomeSucceeded {
			reason = outcome.Reasons()[0]
		}
		rev.Rows = append(rev.Rows, store.OutcomeRow{StoreID: id, Outcome: outcome, Reason: reason, Row: json.RawMessage(`{}`)})
	}
	if err := d.Store.AddRevision(d.t.Context(), rev, d.clock()); err != nil {
		d.t.Fatal(err)
	}
}

// answers makes the store's task end, well or not.
func (d *desk) answers(runID, storeID string, event task.Event) {
	d.t.Helper()
	tasks, err := d.Store.GetTaskOf(d.t.Context(), runID, storeID)
	if err != nil {
		d.t.Fatal(err)
	}
	g, err := d.Store.Grant(d.t.Context(), store.Grant{TaskID: tasks[0].TaskID, StoreID: storeID, TerminalID: "pos", LeaseUntil: d.clock().Add(time.Minute)}, d.clock())
	if err != nil {
		d.t.Fatal(err)
	}
	a := store.Attempt{TaskID: tasks[0].TaskID, Attempt: g.Task.State.Attempt, StoreID: storeID, TerminalID: "pos", Answer: protocol.AnswerFailed, Executed: true,
		Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: "no"}, SHA256: strings.Repeat("0", 64), Duration: 3 * time.Second}
	if event == task.Succeed {
		a.Answer, a.Failure, a.Result, a.SHA256 = protocol.AnswerSucceeded, nil, json.RawMessage(`{}`), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	}
	if settled, err := d.Store.Settle(d.t.Context(), store.Answer{Event: event, Attempt: a}, d.clock()); err != nil || !settled.Applied {
		d.t.Fatalf("%+v, %v", settled, err)
	}
}

func (d *desk) task(runID, storeID string) store.Task {
	d.t.Helper()
	tasks, err := d.Store.GetTaskOf(d.t.Context(), runID, storeID)
	if err != nil || len(tasks) != 1 {
		d.t.Fatalf("%+v, %v", tasks, err)
	}
	return tasks[0]
}

// parent is a reported run: 007 succeeded, 1E5 failed, SH_1 is offline and still has
// its offer.
func (d *desk) parent() protocol.Reply {
	d.t.Helper()
	run := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all","input":{"date":"yesterday"},"attempts":1,"maxRunning":7}`)
	d.answers(run.RunID, "007", task.Succeed)
	d.answers(run.RunID, "1E5", task.GiveUp)
	d.reported(run.RunID, map[string]task.Outcome{"007": task.OutcomeSucceeded, "1E5": task.OutcomeFailed, "SH_1": task.OutcomeOffline})
	return run
}

func TestARetryAsksAgainWhatIsMissing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	parent := d.parent()
	d.pass(26 * time.Hour)
	const again = `{"requestId":"again-1","runId":"%s","reason":"the line is back","barrierSeconds":600}`
	reply := d.ask(protocol.VerbRetry, fmt.Sprintf(again, parent.RunID))
	if !reply.OK || reply.Stores != 2 || reply.ParentRun != parent.RunID || reply.RequestID != "again-1" || *reply.Duplicate {
		t.Fatalf("got %+v", reply)
	}
	first, err := d.Store.GetRun(t.Context(), parent.RunID)
	if err != nil {
		t.Fatal(err)
	}
	run, err := d.Store.GetRun(t.Context(), reply.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := first.Policy
	want.Barrier = 10 * time.Minute
	if run.ParentRun != parent.RunID || run.Policy != want || string(run.Input) != `{"date":"yesterday"}` || run.Reason != "the line is back" || !run.OrderedAt.Equal(first.CreatedAt) {
		t.Errorf("got %+v", run)
	}
	for _, id := range []string{"1E5", "SH_1"} {
		if got := d.task(reply.RunID, id); got.State.Status != task.Pending {
			t.Errorf("%s: %+v", id, got.State)
		}
	}
	if old := d.task(parent.RunID, "SH_1"); old.State.Status != task.Cancelled || old.Reason != task.ReasonSuperseded {
		t.Errorf("the parent still offers %+v", old)
	}
	if twice := d.ask(protocol.VerbRetry, fmt.Sprintf(again, parent.RunID)); !twice.OK || twice.RunID != reply.RunID || !*twice.Duplicate || twice.ParentRun != parent.RunID {
		t.Errorf("again: %+v", twice)
	}
	if other := d.ask(protocol.VerbRetry, `{"requestId":"again-1","runId":"`+parent.RunID+`","stores":["1E5"]}`); other.Code != protocol.CodeConflict || other.Path != "/requestId" {
		t.Errorf("the id with other content: %+v", other)
	}
	if run := d.ask(protocol.VerbRun, `{"requestId":"again-1","job":"collect_log","stores":["1E5","SH_1"]}`); run.Code != protocol.CodeConflict {
		t.Errorf("the id for a run: %+v", run)
	}
	d.holds("retry of run " + parent.RunID)
}

// holds demands an entry of the audit with the words.
func (d *desk) holds(words string) {
	d.t.Helper()
	found := false
	err := store.ReadAudit(d.t.Context(), d.path, time.Time{}, "", func(e store.AuditEntry) error {
		found = found || strings.Contains(e.Detail, words)
		return nil
	})
	if err != nil || !found {
		d.t.Errorf("the audit does not say %q, %v", words, err)
	}
}

func TestWhatNeedNotBeAskedAgainIsRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	parent := d.parent()
	retry := func(rest string) protocol.Reply {
		return d.ask(protocol.VerbRetry, `{"runId":"`+parent.RunID+`"`+rest+`}`)
	}
	for rest, say := range map[string]string{
		`,"stores":["007"]`:        "not missing in run " + parent.RunID + ", or being worked on: 007; nothing was created",
		`,"stores":["1E5","nope"]`: "run " + parent.RunID + " has no such store: nope; nothing was changed",
		`,"grantBurst":0`:          "/grantBurst: must be at least 1",
	} {
		if got := retry(rest); got.OK || got.Message != say || got.MessageZh == "" || got.Hint == "" {
			t.Errorf("%s: %+v", rest, got)
		}
	}
	one := retry(`,"stores":["1E5"]`)
	if !one.OK || one.Stores != 1 {
		t.Fatalf("got %+v", one)
	}
	if got := retry(`,"stores":["1E5"],"reason":"in a hurry"`); got.Code != protocol.CodeConflict {
		t.Errorf("while it is asked: %+v", got)
	}
	two := retry(``)
	if !two.OK || two.Stores != 1 || d.task(two.RunID, "SH_1").StoreID != "SH_1" {
		t.Errorf("the rest: %+v", two)
	}
	d.pass(2 * time.Minute)
	if got := retry(``); got.Code != protocol.CodeNoTargets || !strings.Contains(got.Message, "misses no store") {
		t.Errorf("nothing is left: %+v", got)
	}
	d.answers(one.RunID, "1E5", task.GiveUp)
	if got := retry(`,"dryRun":true`); !got.OK || got.Forecast == nil || got.Stores != 1 || got.ParentRun != parent.RunID || got.RunID != "" {
		t.Errorf("what failed again: %+v", got)
	}
	early := d.ask(protocol.VerbRetry, `{"runId":"`+two.RunID+`"}`)
	if early.Code != protocol.CodeConflict || !strings.Contains(early.Message, "is not reported yet") {
		t.Errorf("before its report: %+v", early)
	}
	if n := d.runs(); n != 3 {
		t.Errorf("%d runs", n)
	}
}

func TestARetryNeedsTheSecondPersonAsARunDoes(t *testing.T) {
	t.Parallel()
	d := setup(t, func(cfg *trigger.Config) { cfg.Bounds.ApprovalOver = 1 })
	asked := d.ask(protocol.VerbRun, `{"requestId":"a","job":"collect_log","stores":"all","attempts":1}`)
	approve := func(of protocol.Reply) protocol.Reply {
		t.Helper()
		reply, _ := d.as("chen", protocol.VerbApprove, `{"approvalId":"`+of.ApprovalID+`","contentHash":"`+of.ContentHash+`","decision":"approve"}`)
		return reply
	}
	parent := approve(asked)
	if !parent.OK {
		t.Fatalf("got %+v", parent)
	}
	for _, id := range []string{"007", "1E5"} {
		d.answers(parent.RunID, id, task.GiveUp)
	}
	d.reported(parent.RunID, map[string]task.Outcome{"007": task.OutcomeFailed, "1E5": task.OutcomeFailed, "SH_1": task.OutcomeOffline})
	again := d.ask(protocol.VerbRetry, `{"requestId":"b","runId":"`+parent.RunID+`"}`)
	if again.Code != protocol.CodeNeedsApproval || again.Stores != 3 || !strings.HasPrefix(again.Message, "the retry of run "+parent.RunID+" at 3 stores needs") {
		t.Fatalf("got %+v", again)
	}
	if shown := d.ask(protocol.VerbStatus, `{"approvalId":"`+again.ApprovalID+`"}`); shown.Approval == nil || shown.Approval.Job != "collect_log" || !strings.Contains(string(shown.Approval.Request), parent.RunID) {
		t.Errorf("shown: %+v", shown.Approval)
	}
	made := approve(again)
	if !made.OK || made.ParentRun != parent.RunID || made.Stores != 3 {
		t.Fatalf("got %+v", made)
	}
	if run, err := d.Store.GetRun(t.Context(), made.RunID); err != nil || run.ApprovedBy != "chen" || run.ParentRun != parent.RunID {
		t.Errorf("got %+v, %v", run, err)
	}
	// A retry whose stores changed while it waited is void.
	for _, id := range []string{"007", "1E5", "SH_1"} {
		d.answers(made.RunID, id, task.GiveUp)
	}
	waits := d.ask(protocol.VerbRetry, `{"requestId":"c","runId":"`+parent.RunID+`"}`)
	if one := d.ask(protocol.VerbRetry, `{"requestId":"d","runId":"`+parent.RunID+`","stores":["007"]}`); !one.OK {
		t.Fatalf("got %+v", one)
	}
	if late := approve(waits); late.Code != protocol.CodeConflict || !strings.Contains(late.Message, "is void") {
		t.Errorf("got %+v", late)
	}
}

func TestARetryNamesTheStoresThatLeftTheRegister(t *testing.T) {
	t.Parallel()
	d := setup(t)
	parent := d.parent()
	if _, _, _, err := d.Store.ReplacePlaces(t.Context(), "", []store.Place{
		{StoreID: "007", Name: "seven", TimeZone: "UTC"}, {StoreID: "1E5", Name: "exp", TimeZone: "UTC"},
	}, d.clock()); err != nil {
		t.Fatal(err)
	}
	const said = "left out, for they are no longer registered: SH_1"
	dry := d.ask(protocol.VerbRetry, `{"runId":"`+parent.RunID+`","dryRun":true}`)
	if !dry.OK || fmt.Sprint(dry.LeftOut) != "[SH_1]" || dry.Stores != 1 || !strings.HasSuffix(dry.Message, "; "+said) {
		t.Errorf("a dry run: %+v", dry)
	}
	reply := d.ask(protocol.VerbRetry, `{"requestId":"a","runId":"`+parent.RunID+`"}`)
	if !reply.OK || fmt.Sprint(reply.LeftOut) != "[SH_1]" || reply.Stores != 1 || reply.Message != said || reply.MessageZh != "以下门店已不在名册中，未包含在内：SH_1" {
		t.Errorf("the retry: %+v", reply)
	}
	if status := d.ask(protocol.VerbStatus, `{"runId":"`+reply.RunID+`"}`); status.State == nil || status.State.ParentRun != parent.RunID {
		t.Errorf("its state: %+v", status.State)
	}
	if named := d.ask(protocol.VerbRetry, `{"runId":"`+parent.RunID+`","stores":["SH_1"]}`); named.Code != protocol.CodeUnknownStore {
		t.Errorf("by its name: %+v", named)
	}
	if none := d.ask(protocol.VerbRetry, `{"requestId":"b","runId":"`+parent.RunID+`"}`); none.Code != protocol.CodeNoTargets {
		t.Errorf("nobody else: %+v", none)
	}
}
