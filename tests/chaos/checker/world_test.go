package checker_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// t0 is when the world begins, epoch milliseconds.
var t0 = time.Date(2026, 9, 17, 10, 0, 0, 0, time.UTC).UnixMilli()

// The participants beside the agents.
var (
	wang  = history.Participant{Who: "wang", Role: history.RoleClient}
	watch = history.Participant{Who: "watch", Role: history.RoleCollector}
)

func agentOf(store string) history.Participant {
	return history.Participant{Who: store + "/pos1", Role: history.RoleAgent, Store: store, Terminal: "pos1"}
}

// second is another terminal of the store.
func second(store string) history.Participant {
	return history.Participant{Who: store + "/pos2", Role: history.RoleAgent, Store: store, Terminal: "pos2"}
}

// world is evidence in the making. Times are milliseconds after t0.
type world struct {
	t     *testing.T
	e     checker.Evidence
	lines map[string]int // file: lines
	calls int64
	seq   int64
	// passed is a run whose first revision has no files.
	passed string
	tried  bool                        // rows list their attempts
	totals map[string][]protocol.Total // of a run, whose columns have types
}

func newWorld(t *testing.T) *world {
	return &world{t: t, lines: map[string]int{}, e: checker.Evidence{
		Store:   checker.Store{TakenAt: t0 + 200_000},
		Reports: map[string][]byte{},
		Limits:  checker.Limits{MaxRunning: 3, GrantsPerSecond: 1, GrantBurst: 3},
		Audit:   &checker.Audit{Output: []byte(`{"ok":true,"text":"the audit holds","wrong":0}`)},
	}}
}

// say adds a line to the participant's history.
func (w *world) say(at int64, who history.Participant, l history.Line) {
	l.AtMs, l.MonoUs, l.Participant = t0+at, 1_000_000+at*1000, who
	w.put(l, fmt.Sprintf("%s-%s.jsonl", who.Role, strings.ReplaceAll(who.Who, "/", "_")))
}

func (w *world) put(l history.Line, file string) {
	w.lines[file]++
	l.Source = fmt.Sprintf("%s:%d", file, w.lines[file])
	w.e.History = append(w.e.History, l)
}

// mark is an execution marker of a script.
func (w *world) mark(at int64, id string, attempt, pid int) {
	w.put(history.Line{AtMs: t0 + at, Participant: history.Participant{Who: "scripts", Role: history.RoleExecutor},
		Act: history.ActExecuted, Task: id, Attempt: attempt, PID: pid}, "scripts.markers")
}

func (w *world) text(v any) string {
	w.t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

func (w *world) meta(at int64) protocol.Meta {
	w.seq++
	return protocol.Meta{ID: fmt.Sprintf("M%d", w.seq), At: protocol.At(time.UnixMilli(t0 + at)), Seq: w.seq}
}

// ask is a request of wang with its reply, 10 ms later.
func (w *world) ask(at int64, verb protocol.Verb, payload string, outcome history.Outcome, reply any) {
	w.calls++
	topic := "muster/v1/req/wang/" + string(verb)
	w.say(at, wang, history.Line{Act: history.ActAsked, Call: w.calls, Topic: topic, Payload: payload})
	end := history.Line{Act: history.ActAnswered, Call: w.calls, Topic: topic, Outcome: outcome}
	if outcome != history.OutcomeUnknown {
		end.Payload = w.text(reply)
	}
	w.say(at+10, wang, end)
}

// run makes a run with a task for each store, named run-store.
func (w *world) run(at int64, id, request string, barrier int64, stores ...string) {
	s := &w.e.Store
	s.Runs = append(s.Runs, checker.Run{RunID: id, RequestedBy: "wang", Targets: len(stores), CreatedAt: t0 + at, BarrierAt: t0 + barrier, MakeupUntil: t0 + barrier + 600_000,
		Policy:  checker.RunPolicy{Late: "accept_and_revise"},
		Columns: []protocol.Column{{Name: "marker", Pointer: "/marker", Title: "Marker", TitleZh: "标记"}}})
	if request != "" {
		s.Requests = append(s.Requests, checker.Request{User: "wang", RequestID: request, RunID: id})
	}
	for _, store := range stores {
		s.Targets = append(s.Targets, checker.Target{RunID: id, StoreID: store})
		s.Tasks = append(s.Tasks, checker.Task{TaskID: id + "-" + store, RunID: id, StoreID: store, Status: task.Pending, Attempts: 2, CreatedAt: t0 + at})
	}
}

func (w *world) accepted(run, request string, stores int) (string, protocol.Reply) {
	return fmt.Sprintf(`{"requestId":%q,"job":"probe","stores":"all"}`, request), protocol.Reply{OK: true, Status: "accepted", RunID: run, Stores: stores}
}

func (w *world) task(id string) *checker.Task {
	return find(w.t, w.e.Store.Tasks, func(t checker.Task) bool { return t.TaskID == id })
}

func (w *world) attempt(id string, n int) *checker.Attempt {
	return find(w.t, w.e.Store.Attempts, func(a checker.Attempt) bool { return a.TaskID == id && a.Attempt == n })
}

func (w *world) runOf(id string) *checker.Run {
	return find(w.t, w.e.Store.Runs, func(r checker.Run) bool { return r.RunID == id })
}

func (w *world) outcome(run, store string, revision int) *checker.Outcome {
	return find(w.t, w.e.Store.Outcomes, func(o checker.Outcome) bool {
		return o.RunID == run && o.StoreID == store && o.Revision == revision
	})
}

func find[T any](t *testing.T, list []T, is func(T) bool) *T {
	t.Helper()
	i := slices.IndexFunc(list, is)
	if i < 0 {
		t.Fatal("the world has no such row")
	}
	return &list[i]
}

func (w *world) storeOf(id string) string { return id[strings.LastIndex(id, "-")+1:] }

// offer shows an offer to the store's terminal.
func (w *world) offer(at int64, id string) {
	store := w.storeOf(id)
	w.say(at, agentOf(store), history.Line{Act: history.ActGot, Topic: "muster/v1/stores/" + store + "/tasks/" + id, Retained: true,
		Payload: w.text(protocol.Offer{Meta: w.meta(at), Record: protocol.Record{TaskID: id, StoreID: store, Input: json.RawMessage("{}"), Result: json.RawMessage("null")}})})
}

// connect brings a store's terminal to the broker.
func (w *world) connect(at int64, store string) {
	w.say(at, agentOf(store), history.Line{Act: history.ActConnected})
	w.say(at+1, agentOf(store), history.Line{Act: history.ActSubscribed, Topic: "muster/v1/stores/" + store + "/tasks/+"})
}

func (w *world) order(at int64, store string, o protocol.Order) {
	o.Meta = w.meta(at)
	w.say(at, agentOf(store), history.Line{Act: history.ActGot, Topic: "muster/v1/stores/" + store + "/terminals/pos1/orders", Payload: w.text(o)})
}

// grant lets a task run: in the store at at, at its terminal 5 ms later, with
// the effect 10 ms after that.
func (w *world) grant(at int64, id string) int {
	t := w.task(id)
	w.say(at-10, agentOf(t.StoreID), history.Line{Act: history.ActSent, Topic: "muster/v1/stores/" + t.StoreID + "/terminals/pos1/claim",
		Payload: w.text(protocol.Claim{Meta: w.meta(at - 10), TaskID: id})})
	t.Attempt++
	t.Status = task.Running
	w.e.Store.Attempts = append(w.e.Store.Attempts, checker.Attempt{TaskID: id, Attempt: t.Attempt, StoreID: t.StoreID, TerminalID: "pos1", GrantedAt: t0 + at, StartedAt: t0 + at + 20})
	w.event(at, id, "granted")
	w.order(at+5, t.StoreID, protocol.Order{Order: protocol.OrderGrant, TaskID: id, Attempt: t.Attempt})
	w.mark(at+15, id, t.Attempt, 4000+len(w.e.Store.Attempts))
	return t.Attempt
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// answer ends the running attempt: sent at at, stored 5 ms later, receipted 5 ms
// after that. An empty result is a failure.
func (w *world) answer(at int64, id, result string) {
	t := w.task(id)
	a := w.attempt(id, t.Attempt)
	r := protocol.Result{Meta: w.meta(at), TaskID: id, Attempt: t.Attempt, Outcome: protocol.AnswerSucceeded, Executed: true,
		Result: json.RawMessage(result), SHA256: sum(result)}
	a.Answer, a.Result, a.SHA256 = protocol.AnswerSucceeded, &result, sum(result)
	if result == "" {
		failure := `{"code":"EXECUTION","message":"x"}`
		r.Outcome, r.Result, r.Error, r.SHA256 = protocol.AnswerFailed, nil, json.RawMessage(failure), sum(failure)
		a.Answer, a.Result, a.SHA256, a.Code = protocol.AnswerFailed, nil, sum(failure), protocol.CodeExecution
	}
	w.say(at, agentOf(t.StoreID), history.Line{Act: history.ActSent, Topic: "muster/v1/stores/" + t.StoreID + "/terminals/pos1/result", Payload: w.text(r)})
	a.EndedAt, a.ReceivedAt = t0+at+5, t0+at+5
	if result == "" {
		t.Status = task.Failed
		w.event(at+5, id, "attempt_failed")
	} else {
		t.Status, t.SettledAt = task.Succeeded, t0+at+5
		w.event(at+5, id, "succeeded")
	}
	yes := true
	w.order(at+10, t.StoreID, protocol.Order{Order: protocol.OrderReceipt, TaskID: id, Attempt: t.Attempt, SHA256: r.SHA256, Accepted: &yes})
}

// event is a step of a store as the collector sees it.
func (w *world) event(at int64, id, name string) {
	t := w.task(id)
	w.say(at+1, watch, history.Line{Act: history.ActGot, Topic: "muster/v1/runs/" + t.RunID + "/stores/" + t.StoreID,
		Payload: w.text(protocol.StoreEvent{Meta: w.meta(at), RunID: t.RunID, StoreID: t.StoreID, TaskID: id, Event: name, Status: t.Status, Attempt: t.Attempt})})
}

// judge freezes a revision; row is what it says of each store that changed, as
// "outcome reason".
func (w *world) judge(at int64, run string, revision int, why protocol.RevisionWhy, rows map[string]string) {
	r := w.runOf(run)
	r.Revision = revision
	if revision == 1 {
		r.ClosedAt = t0 + at
	}
	for store, words := range rows {
		outcome, reason, _ := strings.Cut(words, " ")
		w.e.Store.Outcomes = append(w.e.Store.Outcomes, checker.Outcome{RunID: run, StoreID: store, Revision: revision,
			Outcome: task.Outcome(outcome), Reason: task.Reason(reason)})
	}
	slices.SortFunc(w.e.Store.Outcomes, func(a, b checker.Outcome) int {
		return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.StoreID, b.StoreID))
	})
	w.e.Store.Revisions = append(w.e.Store.Revisions, checker.Revision{RunID: run, Revision: revision, Why: why, AsOf: t0 + at,
		Seen: r.LateCount, Complete: 1, PublishedAt: t0 + at + 20})
}

// check puts the history in the order of time and judges it.
func (w *world) check() []checker.Finding {
	w.t.Helper()
	slices.SortStableFunc(w.e.History, func(a, b history.Line) int { return cmp.Compare(a.AtMs, b.AtMs) })
	found, err := checker.Check(w.e)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// clean is a world in which every promise is kept:
//
//	R1  A succeeds; B fails, then succeeds; C comes after the barrier: revision 2
//	R2  A succeeds; B is withdrawn before its grant; the broker forgets how it ended
//	R3  D hears of its task and never claims: open, and reported missing
//
// with a broker that restarts from 12 s to 14 s.
func clean(t *testing.T) *world {
	w := newWorld(t)
	for _, store := range []string{"A", "B", "D"} {
		w.connect(-1000, store)
	}
	payload, reply := w.accepted("R1", "r1", 3)
	w.run(5, "R1", "r1", 30_000, "A", "B", "C")
	w.ask(0, protocol.VerbRun, payload, history.OutcomeOK, reply)
	reply.Duplicate = new(bool)
	w.ask(300, protocol.VerbRun, payload, history.OutcomeUnknown, nil) // a time-out, and so the same again
	w.ask(600, protocol.VerbRun, payload, history.OutcomeOK, reply)
	w.offer(30, "R1-A")
	w.offer(30, "R1-B")
	w.grant(1000, "R1-A")
	w.answer(2000, "R1-A", `{"marker":"a"}`)
	w.grant(1100, "R1-B")
	w.answer(2100, "R1-B", "")
	w.grant(4000, "R1-B")
	w.answer(5000, "R1-B", `{"marker":"b"}`)

	payload, reply = w.accepted("R2", "r2", 2)
	w.run(6005, "R2", "r2", 36_000, "A", "B")
	w.ask(6000, protocol.VerbRun, payload, history.OutcomeOK, reply)
	w.grant(7000, "R2-A")
	w.answer(8000, "R2-A", `{"marker":"a2"}`)
	one := 1
	w.ask(9000, protocol.VerbCancel, `{"runId":"R2","stores":["B"]}`, history.OutcomeOK, protocol.Reply{OK: true, Status: "accepted", RunID: "R2", Cancelled: &one})
	*w.task("R2-B") = checker.Task{TaskID: "R2-B", RunID: "R2", StoreID: "B", Status: task.Cancelled, Attempts: 2, CreatedAt: t0 + 6005, SettledAt: t0 + 9005}
	w.event(9005, "R2-B", "cancelled")
	w.judge(9010, "R2", 1, protocol.WhyCancelled, map[string]string{"A": "succeeded", "B": "cancelled by_user"})
	w.runOf("R2").EndedAt = t0 + 9015

	payload, reply = w.accepted("R3", "r3", 1)
	w.run(10_005, "R3", "r3", 25_000, "D")
	w.ask(10_000, protocol.VerbRun, payload, history.OutcomeOK, reply)
	w.offer(10_010, "R3-D")
	w.say(12_000, watch, history.Line{Act: history.ActFault, Name: "broker", On: true})
	for _, store := range []string{"A", "B", "D"} {
		w.say(12_000, agentOf(store), history.Line{Act: history.ActDisconnected})
	}
	w.say(14_000, watch, history.Line{Act: history.ActFault, Name: "broker"})
	for _, store := range []string{"A", "B", "D"} {
		w.connect(14_500, store)
	}
	w.offer(14_600, "R3-D")
	w.judge(25_020, "R3", 1, protocol.WhyBarrier, map[string]string{"D": "timed_out online_never_claimed"})

	w.judge(30_020, "R1", 1, protocol.WhyBarrier, map[string]string{"A": "succeeded", "B": "succeeded", "C": "offline offline_whole_window"})
	w.connect(35_000, "C")
	w.offer(35_010, "R1-C")
	w.grant(36_000, "R1-C")
	w.answer(37_000, "R1-C", `{"marker":"c"}`)
	w.attempt("R1-C", 1).Late = 1
	w.runOf("R1").LateCount = 1
	w.judge(42_000, "R1", 2, protocol.WhyLateResults, map[string]string{"C": "succeeded"})
	w.runOf("R1").EndedAt = t0 + 42_005
	for i := range int64(40) {
		w.say(i*4000+50, watch, history.Line{Act: history.ActSampled, Name: "dispatcher", PID: 77,
			Sample: &history.Sample{Threads: 50, Descriptors: 30, RSSBytes: 60 << 20}})
	}
	return w
}
