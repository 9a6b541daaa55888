package schema_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/internal/trust"
)

const (
	taskID = "01K5BXJ3Z8A1B2C3D4E5F6G7H8"
	runID  = "20260917-233000-7tk3f9"
)

// TestEveryMessageThatGoEncodesFitsItsSchema holds the structs of the wire to
// the published contract, with every optional member set and with none.
func TestEveryMessageThatGoEncodesFitsItsSchema(t *testing.T) {
	t.Parallel()
	for name, messages := range encoded() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := contract(t, name)
			for i, message := range messages {
				doc, err := protocol.Encode(message)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Validate(doc); err != nil {
					t.Errorf("message %d: %v\n%s", i, err, doc)
				}
			}
		})
	}
}

func encoded() map[string][]any {
	meta, at := protocol.Meta{ID: taskID, At: now(), Seq: 1}, now()
	sum := strings.Repeat("0a", 32)
	yes, no, n, rate, load, skew := true, false, 3, 2.5, 0.5, int64(7)
	failure := &protocol.Failure{Code: protocol.CodeExecution, Message: "m", Detail: "d", Path: "/a"}
	record := protocol.Record{TaskID: taskID, ParentID: runID, StoreID: "007", Type: "collect_log", Input: json.RawMessage(`{}`),
		Status: task.Pending, Deadline: at.UnixMilli()}
	done := record
	done.Status, done.Attempt, done.Result, done.Error = task.Failed, 2, json.RawMessage(`{"a":1.0}`), failure
	state := protocol.RunStateReport{Meta: meta, RunID: runID, ParentRun: runID, Job: "collect_log", Phase: protocol.PhaseMakeup, Targets: 3,
		Tasks: map[task.Status]int{task.Pending: 1, task.Succeeded: 2}, Online: 2, Waiting: 1, BarrierAt: at, MakeupTo: at, Revision: 1}
	retried := protocol.Offer{Meta: meta, Record: record, TypeVersion: 1, TerminalID: "pos-1", Attempts: 2, RunTimeoutMs: 60_000,
		NotBefore: at.UnixMilli(), QueueDeadline: at.UnixMilli(), Requires: []string{"os=linux"}, ScheduledFor: at}
	retried.Status, retried.Attempt, retried.Error = task.Failed, 1, failure
	approval := protocol.Approval{ApprovalID: "ap", Kind: "run", State: "approved", Requester: "r", ContentHash: sum, Job: "j", Stores: 2, Reason: "r",
		Request: json.RawMessage(`{}`), CreatedAt: at, ExpiresAt: at, DecidedAt: at, DecidedBy: "d", RunID: runID, Why: "w"}
	jobs := []protocol.JobInfo{{Name: "collect_log", Version: 1, Title: "t", TitleZh: "题"}, {Name: "b", Version: 2, Title: "t"}}
	return map[string][]any{
		"offer": {retried, protocol.Offer{Meta: meta, Record: record, TypeVersion: 1, Attempts: 1, RunTimeoutMs: 1, ScheduledFor: at}},
		"claim": {protocol.Claim{Meta: meta, TaskID: taskID}, protocol.Claim{Meta: meta, TaskID: taskID, StoredAttempt: 2,
			Condition: protocol.Condition{Load: &load, BatteryPct: &load, DiskFreeMB: &skew, SignalPct: &load, TemperatureC: &load}}},
		"progress": {protocol.Progress{Meta: meta, TaskID: taskID, Attempt: 1}, protocol.Progress{Meta: meta, TaskID: taskID, Attempt: 1, Percent: 100, Note: "n"}},
		"ready":    {protocol.Ready{Meta: meta, TaskID: taskID, Attempt: 1, Bytes: protocol.MaxResultBytes, SHA256: sum}},
		"result": {
			protocol.Result{Meta: meta, TaskID: taskID, Attempt: 1, Outcome: protocol.AnswerSucceeded, Result: json.RawMessage(`{}`), StartedAt: 1, FinishedAt: 2,
				DurationMs: 1, ExitCode: &n, OutputTail: "t", Executed: true, SHA256: sum, OfferSHA256: retried.Hash()},
			protocol.Result{Meta: meta, TaskID: taskID, Attempt: 1, Outcome: protocol.AnswerFailed, Error: json.RawMessage(`{"code":"EXECUTION","message":"m"}`), SHA256: sum},
			protocol.Result{Meta: meta, TaskID: taskID, Attempt: 1, Outcome: protocol.AnswerCancelled, Error: json.RawMessage(`{"code":"CANCELLED","message":"m"}`), SHA256: sum},
		},
		"hello": {protocol.Hello{Meta: meta, AgentVersion: "1", Protocols: []int{1}, Jobs: []protocol.JobVersion{{Type: "collect_log", Version: 1}},
			Labels: map[string]string{"os": "linux"}, Open: []protocol.OpenTask{{TaskID: taskID, Phase: "offered"}}, ClockMs: 1},
			protocol.Hello{Meta: meta, AgentVersion: "1", Protocols: []int{1}, Jobs: []protocol.JobVersion{}, Open: []protocol.OpenTask{}, ClockMs: 1}},
		"order": {
			protocol.Order{Meta: meta, Order: protocol.OrderGrant, TaskID: taskID, Attempt: 1, LeaseMs: 1, RunTimeoutMs: 1, OfferID: taskID},
			protocol.Order{Meta: meta, Order: protocol.OrderGrant, TaskID: taskID, Attempt: 1, LeaseMs: 1, RunTimeoutMs: 1, OfferID: taskID, OfferSHA256: retried.Hash()},
			protocol.Order{Meta: meta, Order: protocol.OrderDeny, TaskID: taskID, Code: protocol.CodeNotYet, Message: "m", RetryAfterMs: 5},
			protocol.Order{Meta: meta, Order: protocol.OrderSend, TaskID: taskID, Attempt: 1},
			protocol.Order{Meta: meta, Order: protocol.OrderReceipt, TaskID: taskID, Attempt: 1, SHA256: sum, Accepted: &yes},
			protocol.Order{Meta: meta, Order: protocol.OrderReceipt, TaskID: taskID, Attempt: 1, SHA256: sum, Accepted: &no, Code: protocol.CodeInvalidResult, Message: "m", Path: "/a"},
			protocol.Order{Meta: meta, Order: protocol.OrderCancel, TaskID: taskID, Attempt: 1, Reason: "by_user"},
			protocol.Order{Meta: meta, Order: protocol.OrderSync, Open: []protocol.SyncTask{{TaskID: taskID, Status: task.Running, Attempt: 1, Mine: true}}, ServerTimeMs: 1, HelloID: taskID},
			protocol.Order{Meta: meta, Order: protocol.OrderSync, ServerTimeMs: 1},
		},
		"trust":       {trust.Sealed{Document: `{"version":1}`, Signature: bytes.Repeat([]byte{255}, 72)}, trust.Sealed{Document: "{}", Signature: make([]byte, 68)}},
		"presence":    {protocol.Presence{Meta: meta, Online: true, Since: at, SessionID: "s"}},
		"run_request": {protocol.RunRequest{Job: "j", Stores: protocol.Targets{All: true}}, protocol.RunRequest{RequestID: "r", Job: "j", Stores: protocol.Targets{Stores: []string{"007"}}, Input: json.RawMessage(`{}`), Reason: "r", BarrierSeconds: &n, Attempts: &n, MaxRunning: &n, GrantsPerSecond: &rate, GrantBurst: &n, MakeupSeconds: &n, Priority: &n, Deadline: 1, DryRun: true}, protocol.RunRequest{Job: "j", Stores: protocol.Targets{Labels: "a=b"}}},
		"retry_request": {protocol.RetryRequest{RunID: runID}, protocol.RetryRequest{RequestID: "r", RunID: runID, Stores: []string{"a"}, Reason: "r", BarrierSeconds: &n, MakeupSeconds: &n,
			Attempts: &n, MaxRunning: &n, GrantsPerSecond: &rate, GrantBurst: &n, Priority: &n, Deadline: 1, DryRun: true}},
		"cancel_request": {protocol.CancelRequest{RunID: runID}, protocol.CancelRequest{RunID: runID, RequestID: "r", Stores: []string{"a"}, Reason: "r", Deadline: 1_789_000_000_000}},
		"status_request": {protocol.StatusRequest{RunID: runID}, protocol.StatusRequest{RunID: runID, StoreID: "a"},
			protocol.StatusRequest{ApprovalID: "ap"}, protocol.StatusRequest{Approvals: true}},
		"approve_request": {protocol.ApproveRequest{ApprovalID: "ap", ContentHash: sum, Decision: protocol.DecisionApprove},
			protocol.ApproveRequest{RequestID: "r", ApprovalID: "ap", ContentHash: sum, Decision: protocol.DecisionReject, Reason: "r", Deadline: 1_789_000_000_000}},
		"reply": {
			protocol.Reply{OK: true, Status: "accepted", RequestID: "r", RunID: runID, Stores: 1, BarrierAt: at, Watch: "w", Summary: "s", Duplicate: &no},
			protocol.Reply{OK: true, Status: "accepted", RunID: runID, Cancelled: &n, Finished: &n, Message: "m", MessageZh: "m"},
			protocol.Reply{OK: true, Status: "accepted", RunID: runID, State: &state, Task: &done},
			protocol.Reply{OK: true, Status: "accepted", RunID: runID, ParentRun: runID, Stores: 1, LeftOut: []string{"SH_0312"}, Duplicate: &no},
			protocol.Reply{OK: true, Status: "accepted", Stores: 1, BarrierAt: at, Message: "m", MessageZh: "m", Forecast: &protocol.Forecast{Online: 1, GrantsPerSecond: 2.5, TypicalMs: 1,
				FinishAt: at, NeedsApproval: true, Silent: 2, SilentStores: []protocol.SilentStore{{StoreID: "a", LastSeenAt: at}, {StoreID: "b"}}}},
			protocol.Reply{OK: true, Status: "accepted", Stores: 1, Forecast: &protocol.Forecast{FinishAt: at, SilentStores: []protocol.SilentStore{}}},
			protocol.Reply{OK: true, Status: "accepted", Jobs: jobs, Usage: []string{"u"}},
			protocol.Reply{Status: "rejected", Code: protocol.CodeNeedsApproval, Message: "m", MessageZh: "m", Hint: "h", HintZh: "h", Stores: 1, ApprovalID: "ap", ContentHash: sum, ExpiresAt: at},
			protocol.Reply{OK: true, Status: "accepted", ApprovalID: "ap", Approval: &approval, Approvals: []protocol.Approval{approval,
				{ApprovalID: "ap", Kind: "keys", State: "pending", Requester: "host:root", ContentHash: sum, CreatedAt: at, ExpiresAt: at}}},
			protocol.Rejected(&protocol.Error{Code: protocol.CodeInternal, Message: "m", MessageZh: "m", Hint: "h", HintZh: "h"}),
		},
		"run_state": {state, protocol.RunStateReport{Meta: meta, RunID: runID, Job: "j", Phase: protocol.PhaseCollecting, Targets: 1, Tasks: map[task.Status]int{}, BarrierAt: at}},
		"store_event": {protocol.StoreEvent{Meta: meta, RunID: runID, StoreID: "a", TaskID: taskID, Event: "offered", Status: task.Pending},
			protocol.StoreEvent{Meta: meta, RunID: runID, StoreID: "a", TaskID: taskID, Event: "failed", Status: task.Failed, Attempt: 2, Terminal: "t", Code: protocol.CodeExecution, Message: "m"}},
		"info":  {protocol.Info{Meta: meta, Version: "1", Protocols: []int{1}, Jobs: jobs, Schemas: []string{"offer.v1.schema.json"}}},
		"alarm": {protocol.Alarm{Meta: meta, Kind: "disk_low", Message: "m"}, protocol.Alarm{Meta: meta, Kind: "disk_low", Recovered: true, Message: "m", MessageZh: "m", Hint: "h", HintZh: "h"}},
	}
}

func now() protocol.Time {
	return protocol.At(time.Date(2026, 9, 17, 7, 30, 12, 345_678_000, time.FixedZone("", 8*3600)))
}
