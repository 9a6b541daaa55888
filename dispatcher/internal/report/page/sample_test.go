package page_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/report"
	"muster/dispatcher/internal/report/page"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/schemas"
)

var created = time.Date(2026, 9, 17, 18, 28, 0, 0, time.FixedZone("Asia/Shanghai", 8*3600))

func at(d time.Duration) protocol.Time { return protocol.At(created.Add(d)) }

// chain is so many stores in regions, of which some failed, some are missing and some
// answered late.
func chain(n int) (head protocol.ReportHead, now, before iter.Seq2[json.RawMessage, error], err error) {
	head = protocol.ReportHead{
		RunID: "20260917-182800-7tk3f9", Job: "collect_log", JobVersion: 1, Input: json.RawMessage(`{"date":"2026-09-16"}`),
		RequestedBy: "wang", ApprovedBy: "chen", Reason: "周检 weekly check", Revision: 2, RevisionWhy: protocol.WhyLateResults, Quorum: 0.8,
		CreatedAt: at(0), BarrierAt: at(2 * time.Minute), AsOf: at(3 * time.Hour), TimeZone: "Asia/Shanghai", Targets: n,
		Columns: []protocol.Column{{Name: "size", Pointer: "/size", Title: "Size of the logs", TitleZh: "日志大小", Unit: "KB", Type: protocol.ColumnInteger,
			Aggregate: []protocol.Aggregate{"sum", "mean", "min", "p50", "p95", "max", "histogram"}}, {Name: "errors", Pointer: "/errors", Title: "Errors", TitleZh: "错误数", Type: protocol.ColumnInteger,
			Aggregate: []protocol.Aggregate{"sum", "distinct", "top", "count"}},
			{Name: "top", Pointer: "/top", Title: "Most frequent error", TitleZh: "最常见错误", Type: protocol.ColumnText, Aggregate: []protocol.Aggregate{"distinct", "top"}},
			{Name: "cut", Pointer: "/cut", Title: "Shortened", TitleZh: "有截断", Type: protocol.ColumnBool, Aggregate: []protocol.Aggregate{"count"}}},
	}
	head.Previous = &protocol.Previous{RunID: "20260910-182800-x2m8qd", Revision: 3, AsOf: at(-7*24*time.Hour + 2*time.Minute), Targets: n, Common: n,
		Counts: protocol.Counts{Succeeded: n - n/11, Offline: n / 11}, NewlyMissing: 2, Recovered: 1,
		NewlyMissingIDs: []string{"S000014", "S000016"}, RecoveredIDs: []string{"S000030"}}
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // the same chain each time
	var rows, old []json.RawMessage
	for i := range n {
		row := answered(i, random)
		first := row
		switch random.IntN(24) {
		case 0:
			row.Outcome, row.Reason, row.Status, row.Evidence.Attempts = task.OutcomeFailed, task.ReasonExecutionError, task.Failed, 2
			row.Columns, row.SHA256, row.Bytes = nothing(), "", 0
			row.Error = &protocol.Failure{Code: "EXECUTION_ERROR", Message: "cannot read D:\\POS\\log\\20260916.log: <access denied>",
				Detail: "  printer: 没有纸了\n" + strings.Repeat("    at step 7 of the day's closing\n", 12) + "gave up"}
			exit := 3
			row.Attempt, row.Tries = 2, []protocol.Try{
				{Attempt: 1, TerminalID: "pos2", GrantedAt: at(time.Second), StartedAt: at(2 * time.Second), EndedAt: at(40 * time.Second), Code: protocol.CodeLeaseExpired, Message: "silent for longer than its lease"},
				{Attempt: 2, TerminalID: "pos1", GrantedAt: row.Evidence.GrantedAt, StartedAt: row.Evidence.StartedAt, EndedAt: row.FinishedAt, Answer: protocol.AnswerFailed,
					Code: "EXECUTION_ERROR", Message: row.Error.Message, ExitCode: &exit, SHA256: strings.Repeat("cd", 32), Bytes: 96}}
			first = row
		case 1:
			row = silent(row, task.OutcomeOffline, task.ReasonOfflineWholeWindow)
			first = row
		case 2:
			row = silent(row, task.OutcomeTimedOut, task.ReasonStartedThenSilent)
			row.Evidence.Online, row.Evidence.StartedAt, row.Status = true, at(9*time.Second), task.Running
			first = row
		case 3:
			first = silent(row, task.OutcomeOffline, task.ReasonWentOffline)
			row.AtBarrier, row.Late, row.FinishedAt = task.OutcomeOffline, true, at(time.Duration(3+random.IntN(170))*time.Minute)
		}
		if i%60 == 7 && row.Outcome == task.OutcomeSucceeded {
			row.Columns[1] = json.RawMessage(`"many"`)
		}
		if i%20 == 9 && row.Outcome == task.OutcomeSucceeded {
			row.Columns[2] = json.RawMessage(`"007"`)
		}
		if row.AtBarrier == "" {
			row.AtBarrier = row.Outcome
		}
		first.AtBarrier = first.Outcome
		for list, r := range map[*[]json.RawMessage]protocol.StoreRow{&rows: row, &old: first} {
			doc, err := protocol.Encode(r)
			if err != nil {
				return head, nil, nil, err
			}
			*list = append(*list, doc)
		}
	}
	return head, each(rows), each(old), nil
}

func answered(i int, random *rand.Rand) protocol.StoreRow {
	regions, cities := []string{"east", "north", "overseas", "south", "west"}, []string{"上海", "北京", "Singapore", "广州", "成都"}
	skew, took := int64(random.IntN(1800)-900), time.Duration(4000+random.ExpFloat64()*18000)*time.Millisecond
	if i%97 == 5 {
		skew = 42_000
	}
	took = min(took, 118*time.Second)
	errors := []string{`"支付网关超时"`, `"支付网关超时"`, `"支付网关超时"`, `"printer: out of paper"`, `"printer: out of paper"`, `"打印机缺纸"`, `"scale does not answer"`, `"member card: read error"`}
	values := []json.RawMessage{json.RawMessage(fmt.Sprint(2000 + random.IntN(9000))), json.RawMessage(fmt.Sprint(random.IntN(40))), json.RawMessage(errors[random.IntN(len(errors))]), json.RawMessage(strconv.FormatBool(random.IntN(9) == 0))}
	return protocol.StoreRow{
		StoreID: fmt.Sprintf("S%06d", i), Name: fmt.Sprintf("%s %d 号店", cities[i%5], i), Labels: map[string]string{"region": regions[i%5], "format": "mall"},
		Outcome: task.OutcomeSucceeded, Status: task.Succeeded, Attempt: 1, TaskID: fmt.Sprintf("01J7ZK3N8Q4V5W6X7Y8Z%06d", i), TerminalID: "pos1",
		FinishedAt: at(took), SHA256: strings.Repeat("ab", 32), Bytes: 412, Columns: values,
		Evidence: protocol.Evidence{Online: true, LastSeenAt: at(119 * time.Second), ClaimedAt: at(time.Second), GrantedAt: at(2 * time.Second),
			StartedAt: at(3 * time.Second), LastSignAt: at(took), Attempts: 1, AttemptsOf: 2, ClockSkewMs: &skew},
	}
}

func silent(row protocol.StoreRow, outcome task.Outcome, reason task.Reason) protocol.StoreRow {
	row.Outcome, row.Reason, row.Status, row.FinishedAt, row.SHA256, row.Bytes = outcome, reason, task.Pending, protocol.Time{}, "", 0
	row.Columns, row.TerminalID = nothing(), ""
	row.Evidence = protocol.Evidence{LastSeenAt: at(-3 * time.Hour), AttemptsOf: 2}
	return row
}

func nothing() []json.RawMessage {
	null := json.RawMessage("null")
	return []json.RawMessage{null, null, null, null}
}

func each(rows []json.RawMessage) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// written is the page of so many stores as a file, and its head.
func written(t testing.TB, n int) (string, protocol.ReportHead) {
	t.Helper()
	doc, err := schemas.FS.ReadFile("report.v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.New(doc)
	if err != nil {
		t.Fatal(err)
	}
	head, now, before, err := chain(n)
	if err == nil {
		head, err = r.Build(head, now, before)
	}
	if err == nil {
		err = r.Check(head, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "report.html")
	file, err := os.Create(name) //nolint:gosec // the test's own
	if err == nil {
		err = r.Write(file, "html", head, now)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return name, head
}

// indexed is an index of 30 runs of two jobs, one a day.
func indexed(t testing.TB) string {
	t.Helper()
	p, err := page.New()
	if err != nil {
		t.Fatal(err)
	}
	verdicts := []protocol.Verdict{protocol.VerdictComplete, protocol.VerdictPartial, protocol.VerdictBelowQuorum}
	var runs []protocol.Listed
	for i := range 30 {
		day := created.AddDate(0, 0, -i)
		head := protocol.ReportHead{RunID: day.Format("20060102-150405") + "-7tk3f9", Job: []string{"collect_log", "price_check"}[i%2], Revision: 1 + i%3,
			RequestedBy: "wang", Reason: "周检 weekly <check>", CreatedAt: protocol.At(day), Targets: 240, Verdict: verdicts[i%3]}
		head.Counts = protocol.Counts{Succeeded: 240 - 13*(i%3), Failed: 3 * (i % 3), TimedOut: 4 * (i % 3), Offline: 6 * (i % 3)}
		stem := day.Format("20060102-1504_") + head.Job + "_" + head.RunID + fmt.Sprintf("_r%d", head.Revision)
		var files []protocol.ManifestFile
		for _, ext := range []string{"json", "csv", "html", "xlsx"} {
			files = append(files, protocol.ManifestFile{Name: stem + "." + ext})
		}
		runs = append(runs, protocol.Listed{Folder: day.Format("2006/01"), Head: head, Manifest: protocol.Manifest{Files: files}})
	}
	name := filepath.Join(t.TempDir(), "index.html")
	file, err := os.Create(name) //nolint:gosec // the test's own
	if err == nil {
		err = p.Index(file, created, runs)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}
