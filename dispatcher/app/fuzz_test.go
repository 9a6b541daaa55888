package app_test

import (
	"encoding/json"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/report"
	"muster/internal/protocol"
	"muster/internal/redact"
	"muster/internal/task"
	"muster/schemas"
)

// FuzzAResultBreaksNoReport sends what a terminal may say through everything
// that reads it: the strict reading, the blacking out, the columns, the check,
// and every file of the report. Whatever is taken must come out in all of them.
func FuzzAResultBreaksNoReport(f *testing.F) {
	doc, err := schemas.FS.ReadFile("report.v1.schema.json")
	if err != nil {
		f.Fatal(err)
	}
	reporter, err := report.New(doc)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{"v":1e308,"w":["\u0000\u001f\ufffe","=1+1"]}`, `{"v":"` + strings.Repeat("\U0010ffff", 400) + `"}`,
		`{"v":{"password":"x","a":[[[[1]]]]},"w":-0}`, `{"v":"\u202e\u2028<script>]]>","w":0.0000000000000000000000000000000000001}`,
		`["v"]`, `"v"`, `{"v":"` + strings.Repeat(`\r\n`, 300) + `"}`, `{"":1,"v":""}`} {
		f.Add([]byte(seed), "tail password=x")
	}
	columns := []protocol.Column{{Name: "v", Pointer: "/v", Title: "v"}, {Name: "w", Pointer: "/w/1", Title: "w"}, {Name: "all", Pointer: "", Title: "all"}}
	f.Fuzz(func(t *testing.T, result []byte, said string) {
		var m protocol.Result
		message := append(append([]byte(`{"result":`), result...), '}')
		if protocol.Decode(message, protocol.MaxPayloadBytes, &m) != nil || len(m.Result) == 0 {
			return
		}
		clean, _ := redact.JSON(m.Result)
		said, _ = redact.Text(said)
		row := protocol.StoreRow{StoreID: "S1", Name: said, Labels: map[string]string{}, Outcome: task.OutcomeSucceeded, AtBarrier: task.OutcomeSucceeded,
			TaskID: "T1", Status: task.Succeeded, Attempt: 1, TerminalID: "pos1", FinishedAt: protocol.At(time.UnixMilli(1)), SHA256: strings.Repeat("a", 64),
			Evidence: protocol.Evidence{AttemptsOf: 1, Attempts: 1}, Bytes: int64(len(clean)), Columns: job.Extract(columns, clean)}
		raw, err := protocol.Encode(row)
		if err != nil {
			t.Fatalf("a result that is taken cannot be a row: %v", err)
		}
		var rows iter.Seq2[json.RawMessage, error] = func(yield func(json.RawMessage, error) bool) { yield(raw, nil) }
		at := protocol.At(time.UnixMilli(1_789_000_000_000))
		head, err := reporter.Build(protocol.ReportHead{RunID: "R1", Job: "probe", JobVersion: 1, Input: json.RawMessage(`{}`), RequestedBy: "wang",
			Reason: said, Revision: 1, RevisionWhy: protocol.WhyBarrier, CreatedAt: at, BarrierAt: at, AsOf: at, TimeZone: "UTC", Targets: 1, Columns: columns}, rows, nil)
		if err != nil {
			t.Fatalf("a result that is taken cannot be reported: %v", err)
		}
		for _, format := range reporter.Formats() {
			if err := reporter.Write(io.Discard, format.Ext, head, rows); err != nil {
				t.Fatalf("a result that is taken cannot be written as %s: %v", format.Ext, err)
			}
		}
		if err := reporter.Check(head, rows); err != nil {
			t.Fatalf("a result that is taken is refused as a row: %v", err)
		}
	})
}
