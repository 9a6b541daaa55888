package app_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
)

// overBoth runs a case over the embedded broker and over MQTT.
func overBoth(t *testing.T, body func(t *testing.T, transport string)) {
	for _, transport := range []string{config.TransportEmbedded, config.TransportMQTT} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			body(t, transport)
		})
	}
}

func TestOneOrderOutEveryAnswerIn(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"007", "1E5", "06-8108"}, nil)
		for _, store := range []string{"007", "1E5", "06-8108"} {
			hq.terminal(store, fleet.Options{Execute: value("9007199254740993")})
		}
		tech := hq.technician("wang")
		reply := tech.run(`{"requestId":"a","job":"probe","stores":"all"}`)
		if reply.Stores != 3 || reply.Duplicate == nil || *reply.Duplicate {
			t.Errorf("reply %+v", reply)
		}
		summary := tech.summary(reply.RunID, 1)
		report := hq.report(summary)
		if report.Verdict != protocol.VerdictComplete || report.Counts != (protocol.Counts{Succeeded: 3}) || report.Targets != 3 {
			t.Errorf("report %+v", report)
		}
		for _, row := range report.Stores {
			if len(row.Columns) != 1 || string(row.Columns[0]) != "9007199254740993" {
				t.Errorf("store %s: columns %s", row.StoreID, row.Columns)
			}
		}
		again := tech.ask(protocol.VerbRun, `{"requestId":"a","job":"probe","stores":"all"}`)
		if !again.OK || again.RunID != reply.RunID || again.Duplicate == nil || !*again.Duplicate {
			t.Errorf("the same request again: %+v", again)
		}
		other := tech.ask(protocol.VerbRun, `{"requestId":"a","job":"probe","stores":["007"]}`)
		if other.OK || other.Code != protocol.CodeConflict {
			t.Errorf("the same id with other content: %+v", other)
		}
	})
}

// The ten stores of the contract: 6 well, 1 failed after its attempts, 1 timed
// out, 1 offline, 1 cancelled, with duplicates of everything.
func TestTenStoresSumToTenInEveryFile(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		stores := []string{"S0", "S1", "S2", "S3", "S4", "S5", "FAIL", "MUTE", "AWAY", "STOP"}
		hq := setup(t, transport, stores, nil)
		terminals := map[string]*fleet.Terminal{}
		for _, store := range stores[:6] {
			terminals[store] = hq.terminal(store, fleet.Options{Execute: value("1.0")})
		}
		var tries atomic.Int32
		hq.terminal("FAIL", fleet.Options{Execute: func(protocol.Offer, int) fleet.Reply {
			tries.Add(1)
			return fleet.Reply{Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: "disk <broken>"}}
		}})
		hq.terminal("MUTE", fleet.Options{Mute: true})
		hq.terminal("STOP", fleet.Options{Mute: true})
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":4}`)
		cancel := tech.ask(protocol.VerbCancel, fmt.Sprintf(`{"runId":%q,"stores":["STOP"]}`, run.RunID))
		if !cancel.OK || cancel.Cancelled == nil || *cancel.Cancelled != 1 {
			t.Errorf("cancel: %+v", cancel)
		}
		for _, term := range terminals { // duplicates of everything
			for range 3 {
				for _, id := range term.Tasks() {
					_ = term.Claim(id)
					_ = term.Send(protocol.KindResult, term.NewResult(id, 1, fleet.Reply{Result: json.RawMessage(`{"value":1.0}`)}))
				}
			}
		}
		summary := tech.summary(run.RunID, 1)
		report := hq.report(summary)
		want := protocol.Counts{Succeeded: 6, Failed: 1, TimedOut: 1, Offline: 1, Cancelled: 1}
		if report.Counts != want || summary.Counts != want || report.Targets != 10 || len(report.Stores) != 10 {
			t.Errorf("counts %+v, summary %+v of %d targets and %d rows", report.Counts, summary.Counts, report.Targets, len(report.Stores))
		}
		if tries.Load() != 2 {
			t.Errorf("%d executions where 2 attempts are allowed", tries.Load())
		}
		reasons := map[string]task.Reason{"FAIL": task.ReasonExecutionError, "MUTE": task.ReasonOnlineNeverClaimed,
			"AWAY": task.ReasonOfflineWholeWindow, "STOP": task.ReasonByUser}
		for _, row := range report.Stores {
			if row.Reason != reasons[row.StoreID] {
				t.Errorf("store %s: outcome %s, reason %q, want %q", row.StoreID, row.Outcome, row.Reason, reasons[row.StoreID])
			}
		}
		if rows := hq.rows(summary); len(rows) != 11 {
			t.Errorf("the CSV has %d lines, want a header and 10", len(rows))
		}
	})
}

func TestZeroAnswersGiveNullRates(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A", "B"}, nil)
	tech := hq.technician("wang")
	run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":1}`)
	summary := tech.summary(run.RunID, 1)
	report := hq.report(summary)
	if report.Rates.SucceededOfAnswered != nil || report.Verdict != protocol.VerdictBelowQuorum {
		t.Errorf("rates %+v, verdict %s", report.Rates, report.Verdict)
	}
	for _, ext := range []string{".json", ".csv", ".html"} {
		if bytes.Contains(hq.file(summary, ext), []byte("NaN")) {
			t.Errorf("the %s file says NaN", ext)
		}
	}
}

func TestLateResultMakesTheNextRevisionAndKeepsTheFirst(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A", "B"}, nil)
		hq.terminal("A", fleet.Options{Execute: value("1")})
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":1}`)
		first := tech.summary(run.RunID, 1)
		before := map[string][]byte{}
		for _, ext := range []string{".json", ".csv", ".html", ".xlsx"} {
			before[ext] = hq.file(first, ext)
		}
		hq.terminal("B", fleet.Options{Execute: value("2")})
		second := tech.summary(run.RunID, 2)
		report := hq.report(second)
		if report.Counts != (protocol.Counts{Succeeded: 2}) || len(report.Changes) != 1 ||
			report.Changes[0] != (protocol.Change{StoreID: "B", From: task.OutcomeOffline, FromReason: task.ReasonOfflineWholeWindow, To: task.OutcomeSucceeded}) {
			t.Errorf("revision 2: counts %+v, changes %+v", report.Counts, report.Changes)
		}
		for ext, data := range before {
			if !bytes.Equal(data, hq.file(first, ext)) {
				t.Errorf("the %s file of revision 1 changed", ext)
			}
		}
	})
}

func TestWithdrawnOfferDoesNothingWhenTheStoreReturns(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A"}, nil)
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":60}`)
		if reply := tech.ask(protocol.VerbCancel, fmt.Sprintf(`{"runId":%q}`, run.RunID)); !reply.OK {
			t.Fatalf("cancel: %+v", reply)
		}
		summary := tech.summary(run.RunID, 1)
		var executed atomic.Int32
		synced := make(chan struct{}, 1)
		hq.terminal("A", fleet.Options{
			Execute: func(protocol.Offer, int) fleet.Reply { executed.Add(1); return fleet.Reply{} },
			Observe: func(kind string, _ protocol.Order) {
				if kind == string(protocol.OrderSync) {
					synced <- struct{}{}
				}
			}})
		<-synced
		if executed.Load() != 0 || summary.Counts != (protocol.Counts{Cancelled: 1}) {
			t.Errorf("executed %d times, counts %+v", executed.Load(), summary.Counts)
		}
	})
}

func TestAttemptsAreExecutions(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A"}, nil)
	var tries atomic.Int32
	hq.terminal("A", fleet.Options{Execute: func(protocol.Offer, int) fleet.Reply {
		tries.Add(1)
		return fleet.Reply{Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: "no"}}
	}})
	tech := hq.technician("wang")
	for _, attempts := range []int{1, 2, 4} {
		tries.Store(0)
		run := tech.run(fmt.Sprintf(`{"requestId":"n%d","job":"probe","stores":"all","attempts":%d}`, attempts, attempts))
		report := hq.report(tech.summary(run.RunID, 1))
		if int(tries.Load()) != attempts || report.Stores[0].Attempt != attempts || report.Counts.Failed != 1 {
			t.Errorf("%d attempts: %d executions, row %+v", attempts, tries.Load(), report.Stores[0])
		}
	}
}

func TestLargeResultsTrickleInside(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		const stores, inFlight = 500, 8
		names := make([]string, stores)
		for i := range names {
			names[i] = fmt.Sprintf("S%03d", i)
		}
		hq := setup(t, transport, names, func(cfg *config.Config) { cfg.Collection.InFlight = inFlight })
		big := json.RawMessage(`{"value":"` + string(bytes.Repeat([]byte("x"), 100<<10)) + `"}`)
		var mu sync.Mutex
		sends := map[string]time.Time{} // task id: the moment of the order to send
		for _, name := range names {
			hq.terminal(name, fleet.Options{Delay: 2 * time.Second,
				Execute: func(protocol.Offer, int) fleet.Reply { return fleet.Reply{Result: big} },
				Observe: func(kind string, o protocol.Order) {
					if kind == string(protocol.OrderSend) {
						mu.Lock()
						sends[o.TaskID] = o.At.Time
						mu.Unlock()
					}
				}})
		}
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":120}`)
		summary := tech.summary(run.RunID, 1)
		if summary.Counts != (protocol.Counts{Succeeded: stores}) {
			t.Errorf("counts %+v", summary.Counts)
		}
		hq.stop()
		if most := uploadsAtOnce(t, hq, sends); most > inFlight || most == 0 {
			t.Errorf("%d uploads at once where %d are allowed", most, inFlight)
		}
	})
}

// uploadsAtOnce is the most uploads that were between their order to send and
// their commit at one moment of headquarters' clock.
func uploadsAtOnce(t *testing.T, hq *headquarters, sends map[string]time.Time) int {
	t.Helper()
	st, err := store.Open(t.Context(), store.Options{Path: filepath.Join(hq.cfg.DataFolder, "muster.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	type step struct {
		at   time.Time
		more int
	}
	var steps []step
	for id, at := range sends {
		attempts, err := st.ListAttempts(t.Context(), id)
		if err != nil || len(attempts) != 1 {
			t.Fatalf("task %s: %d attempts, %v", id, len(attempts), err)
		}
		steps = append(steps, step{at, 1}, step{attempts[0].ReceivedAt, -1})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), a.more-b.more) })
	now, most := 0, 0
	for _, s := range steps {
		now += s.more
		most = max(most, now)
	}
	return most
}

func TestOfflineStoresHoldNoSlot(t *testing.T) {
	t.Parallel()
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("S%03d", i)
	}
	hq := setup(t, config.TransportEmbedded, names, func(cfg *config.Config) { cfg.Admission.MaxRunning = 10 })
	for _, name := range names[50:] {
		hq.terminal(name, fleet.Options{Execute: value("1"), Delay: 100 * time.Millisecond})
	}
	tech := hq.technician("wang")
	run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":5}`)
	summary := tech.summary(run.RunID, 1)
	if summary.Counts != (protocol.Counts{Succeeded: 50, Offline: 50}) {
		t.Errorf("counts %+v", summary.Counts)
	}
}

// Invariants I7 and I10: the deadline and the open work outlive headquarters.
func TestRestartPicksEverythingUp(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A", "B"}, nil)
		tech := hq.technician("wang")
		run := tech.run(`{"requestId":"once","job":"probe","stores":"all","barrierSeconds":8}`)
		hq.restart()
		hq.terminal("A", fleet.Options{Mute: true}) // one that was cut off while it executed would hold the task
		hq.restart()
		hq.terminal("A", fleet.Options{Execute: value("1")})
		tech = hq.technician("wang")
		again := tech.ask(protocol.VerbRun, `{"requestId":"once","job":"probe","stores":"all","barrierSeconds":8}`)
		if again.RunID != run.RunID {
			t.Errorf("a second run %s after the restart", again.RunID)
		}
		report := hq.report(tech.summary(run.RunID, 1))
		if report.Counts != (protocol.Counts{Succeeded: 1, Offline: 1}) {
			t.Errorf("counts %+v", report.Counts)
		}
		if late := report.AsOf.Sub(run.BarrierAt.Time); late < 0 || late > time.Second {
			t.Errorf("the barrier closed %v after its deadline", late)
		}
	})
}

func TestRetainedTriggerMakesNoRun(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A"}, nil)
		tech := hq.technician("wang")
		topic := hq.topics.Request("wang", protocol.VerbRun)
		err := tech.conn.Send(fleet.Outgoing{Topic: topic, Payload: []byte(`{"job":"probe","stores":"all"}`), Retain: true})
		if err != nil {
			t.Fatal(err)
		}
		var reply protocol.Reply
		tech.await("the refusal", func(m fleet.Message) bool {
			return m.Topic == hq.topics.LastReply("wang") && protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &reply) == nil
		})
		if reply.OK || reply.Code != protocol.CodeRetainedCommand || reply.Hint == "" {
			t.Errorf("reply %+v", reply)
		}
		hq.restart()
		hq.restart()
		tech = hq.technician("wang")
		fresh := tech.run(`{"job":"probe","stores":"all"}`)
		for _, m := range tech.got {
			if addr, ok := hq.topics.Parse(m.Topic); ok && addr.Run != "" && addr.Run != fresh.RunID {
				t.Errorf("a retained trigger made run %s", addr.Run)
			}
		}
	})
}

func TestUnknownVerbIsAnsweredWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A"}, nil)
		tech := hq.technician("wang")
		for _, verb := range []protocol.Verb{"destroy", "RUN"} {
			reply := tech.ask(verb, `{"job":"probe","stores":"all"}`)
			if reply.OK || reply.Code != protocol.CodeSchema || !strings.Contains(reply.Message, string(verb)) || reply.MessageZh == "" ||
				!strings.Contains(reply.Hint, "run, cancel, status, retry, approve, jobs, help") {
				t.Errorf("%s: reply %+v", verb, reply)
			}
		}
	})
}

func TestHostileNamesAreInert(t *testing.T) {
	t.Parallel()
	names := []string{"007=<script>alert(1)</script>", "1E5==1+1", `06-8108="quoted" 'name'`, "D=🏪 emoji", "E=rtl \u202e\u2067evil", "F=@SUM(A1)", "G=-5"}
	hq := setup(t, config.TransportEmbedded, names, nil)
	tech := hq.technician("wang")
	run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":1}`)
	summary := tech.summary(run.RunID, 1)
	if html := hq.file(summary, ".html"); bytes.Contains(html, []byte("<script>alert")) {
		t.Error("a store name is live in the HTML")
	}
	ids := map[string]bool{}
	for _, row := range hq.report(summary).Stores {
		ids[row.StoreID] = true
	}
	for _, id := range []string{"007", "1E5", "06-8108"} {
		if !ids[id] {
			t.Errorf("store %s is not in the report as text", id)
		}
	}
	for _, row := range hq.rows(summary)[1:] {
		for _, cell := range row {
			if len(cell) > 0 && bytes.ContainsAny([]byte(cell[:1]), "=@") {
				t.Errorf("cell %q would be a formula", cell)
			}
		}
	}
}
