package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
)

// database stops headquarters and opens what it left behind.
func (hq *headquarters) database() *store.Store {
	hq.t.Helper()
	hq.stop()
	st, err := store.Open(hq.t.Context(), store.Options{Path: filepath.Join(hq.cfg.DataFolder, "muster.db")})
	if err != nil {
		hq.t.Fatal(err)
	}
	hq.t.Cleanup(func() {
		if err := st.Close(); err != nil {
			hq.t.Error(err)
		}
	})
	return st
}

// cells returns the CSV report's columns by store and header.
func (hq *headquarters) cells(s protocol.Summary) map[string]map[string]string {
	hq.t.Helper()
	rows := hq.rows(s)
	out := map[string]map[string]string{}
	for _, row := range rows[1:] {
		cells := map[string]string{}
		for i, name := range rows[0] {
			cells[name] = row[i]
		}
		out[strings.TrimPrefix(row[0], "'")] = cells
	}
	return out
}

// TestNumbersStayExactEverywhere follows each number from a terminal into the
// database and every file: no digit, sign, zero or exponent may change.
func TestNumbersStayExactEverywhere(t *testing.T) {
	t.Parallel()
	numbers := []string{"9007199254740993", "1.0", "-9007199254740993", "0.10", "-0", "1E5", "1e-7", "12345678901234567890.1234567890"}
	refused := map[string]string{"1e400": "the number 1e400 is out of range", "-1e400": "the number -1e400 is out of range",
		strings.Repeat("9", 41): "a number has 41 characters"}
	overBoth(t, func(t *testing.T, transport string) {
		answers := map[string]string{} // store: what it answers
		for i, n := range append(slices.Clone(numbers), slices.Sorted(maps.Keys(refused))...) {
			answers[fmt.Sprintf("S%02d", i)] = n
		}
		hq := setup(t, transport, slices.Sorted(maps.Keys(answers)), nil)
		for id, n := range answers {
			hq.terminal(id, fleet.Options{Execute: value(n)})
		}
		run := hq.technician("wang").run(`{"job":"probe","stores":"all"}`)
		summary := hq.technician("li").summary(run.RunID, 1)
		if want := (protocol.Counts{Succeeded: len(numbers), Failed: len(refused)}); summary.Counts != want {
			t.Errorf("counts %+v, want %+v", summary.Counts, want)
		}
		report, cells, page := hq.report(summary), hq.cells(summary), string(hq.file(summary, ".html"))
		book := hq.database()
		for _, row := range report.Stores {
			n := answers[row.StoreID]
			if why, bad := refused[n]; bad {
				if row.Outcome != task.OutcomeFailed || row.Reason != task.ReasonInvalidResult || row.Error == nil || !strings.Contains(row.Error.Message, why) {
					t.Errorf("%s was not refused: %s, %s, %+v", n, row.Outcome, row.Reason, row.Error)
				}
				continue
			}
			attempt, err := book.GetResult(t.Context(), row.TaskID, 1)
			if err != nil {
				t.Fatal(err)
			}
			stored := string(attempt.Result) == `{"value":`+n+`}` && len(attempt.Columns) == 1 && string(attempt.Columns[0]) == n
			shown := len(row.Columns) == 1 && string(row.Columns[0]) == n && cells[row.StoreID]["job.value"] == n &&
				strings.Contains(page, "<bdi>"+n+"</bdi>")
			if !stored || !shown {
				t.Errorf("%s became %s and %s in the database, %s in JSON, %q in CSV; in the page: %v", n, attempt.Result, attempt.Columns,
					row.Columns, cells[row.StoreID]["job.value"], strings.Contains(page, n))
			}
		}
	})
}

// TestOtherFieldNamesAreRefusedByFieldRetriedAndKept: what the job's schema
// refuses is told to the terminal and in every file by field and reason, tried
// again, and kept as it came.
func TestOtherFieldNamesAreRefusedByFieldRetriedAndKept(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"NEW", "OLD", "MENDED"}, func(cfg *config.Config) {
			strict := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["value"],"additionalProperties":false,
				"properties":{"value":{"type":"object","required":["lines"],"additionalProperties":false,"properties":{"lines":{"type":"integer"}}}}}`
			if err := os.WriteFile(filepath.Join(cfg.JobsFolder, "probe_output.json"), []byte(strict), 0o600); err != nil {
				t.Fatal(err)
			}
		})
		const good, other = `{"value":{"lines":3}}`, `{"value":{"lineCount":3}}`
		receipts := make(chan protocol.Order, 100)
		answer := func(id string, replies ...string) {
			hq.terminal(id, fleet.Options{
				Execute: func(_ protocol.Offer, attempt int) fleet.Reply {
					return fleet.Reply{Result: json.RawMessage(replies[min(attempt, len(replies))-1])}
				},
				Observe: func(kind string, o protocol.Order) {
					if kind == string(protocol.OrderReceipt) && id == "OLD" {
						receipts <- o
					}
				}})
		}
		answer("NEW", good)
		answer("OLD", other)
		answer("MENDED", other, good)
		tech := hq.technician("wang")
		summary := tech.summary(tech.run(`{"job":"probe","stores":"all"}`).RunID, 1)
		if summary.Counts != (protocol.Counts{Succeeded: 2, Failed: 1}) {
			t.Errorf("counts %+v", summary.Counts)
		}
		const path, why = "/value/lineCount", "/value/lineCount: is not allowed"
		report, cells, page := hq.report(summary), hq.cells(summary), string(hq.file(summary, ".html"))
		rows := map[string]protocol.StoreRow{}
		for _, row := range report.Stores {
			rows[row.StoreID] = row
		}
		old := rows["OLD"]
		if old.Reason != task.ReasonInvalidResult || old.Attempt != 2 || old.Error == nil || old.Error.Code != protocol.CodeInvalidResult ||
			old.Error.Path != path || !strings.Contains(old.Error.Message, why) {
			t.Errorf("row %+v, error %+v", old, old.Error)
		}
		if c := cells["OLD"]; c["error_code"] != string(protocol.CodeInvalidResult) || c["error_path"] != path || !strings.Contains(c["error_message"], why) {
			t.Errorf("CSV %+v", c)
		}
		if !strings.Contains(page, why) {
			t.Error("the page does not say which field was refused")
		}
		if rows["MENDED"].Attempt != 2 || rows["NEW"].Attempt != 1 {
			t.Errorf("attempts %d of the mended, %d of the good", rows["MENDED"].Attempt, rows["NEW"].Attempt)
		}
		book := hq.database()
		for range 2 { // the last may come after the report
			if o := <-receipts; o.Accepted == nil || *o.Accepted || o.Code != protocol.CodeInvalidResult || o.Path != path || !strings.Contains(o.Message, why) {
				t.Errorf("receipt %+v", o)
			}
		}
		if n := len(receipts); n > 0 {
			t.Errorf("%d receipts for 2 refused answers", 2+n)
		}
		kept, err := book.ListRejected(t.Context(), old.TaskID)
		if err != nil || len(kept) != 2 {
			t.Fatalf("%d refused answers are kept, %v", len(kept), err)
		}
		for i, k := range kept {
			if k.Attempt != i+1 || k.TerminalID != "pos1" || !bytes.Contains(k.Payload, []byte(other)) || k.Failure == nil || k.Failure.Path != path {
				t.Errorf("kept %+v", k)
			}
		}
	})
}

// TestNothingAfterSuccessChangesIt sends, after a success, all that a confused
// or flaky terminal may say about the same task.
func TestNothingAfterSuccessChangesIt(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A", "B"}, nil)
		receipts := make(chan protocol.Order, 100)
		executions := atomic.Int32{}
		term := hq.terminal("A", fleet.Options{
			Execute: func(protocol.Offer, int) fleet.Reply {
				executions.Add(1)
				return fleet.Reply{Result: json.RawMessage(`{"value":"first"}`)}
			},
			Observe: func(kind string, o protocol.Order) {
				if kind == string(protocol.OrderReceipt) {
					receipts <- o
				}
			}})
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":6}`)
		first := <-receipts
		id := first.TaskID
		say := func(kind protocol.Kind, message any) {
			if err := term.Send(kind, message); err != nil {
				t.Fatal(err)
			}
		}
		progress := func(attempt int) {
			say(protocol.KindProgress, protocol.Progress{Meta: term.Meta(), TaskID: id, Attempt: attempt, Percent: 50})
		}
		progress(1)
		same := term.NewResult(id, 1, fleet.Reply{Result: json.RawMessage(`{"value":"first"}`)})
		say(protocol.KindResult, same)
		progress(1)
		say(protocol.KindResult, term.NewResult(id, 1, fleet.Reply{Result: json.RawMessage(`{"value":"second"}`)}))
		say(protocol.KindResult, term.NewResult(id, 1, fleet.Reply{Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: "no"}}))
		progress(2)
		say(protocol.KindResult, term.NewResult(id, 2, fleet.Reply{Result: json.RawMessage(`{"value":"third"}`)}))
		say(protocol.KindReady, protocol.Ready{Meta: term.Meta(), TaskID: id, Attempt: 1, Bytes: 20_000, SHA256: same.SHA256})
		if err := term.Claim(id); err != nil {
			t.Fatal(err)
		}
		for range 4 { // one receipt a result: all of the above was taken in
			if o := <-receipts; o.SHA256 == same.SHA256 && (o.Accepted == nil || !*o.Accepted) {
				t.Errorf("the copy of the stored answer was refused: %+v", o)
			}
		}
		report := hq.report(tech.summary(run.RunID, 1))
		row := report.Stores[0]
		if row.Outcome != task.OutcomeSucceeded || row.Status != task.Succeeded || row.Attempt != 1 || string(row.Columns[0]) != `"first"` || row.SHA256 != first.SHA256 {
			t.Errorf("row %+v, columns %s", row, row.Columns)
		}
		attempts, err := hq.database().ListAttempts(t.Context(), id)
		if err != nil || len(attempts) != 1 || attempts[0].Answer != protocol.AnswerSucceeded || executions.Load() != 1 {
			t.Errorf("%d executions, attempts %+v, %v", executions.Load(), attempts, err)
		}
	})
}
