package report_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/report"
	"muster/dispatcher/internal/report/workbook"
	"muster/internal/protocol"
	"muster/internal/task"
)

// toldAttempts are the attempts of one report as three of its files tell them.
type toldAttempts struct {
	json []protocol.StoreRow
	raw  []string   // what the JSON file has under each store's attempts; empty for nothing
	csv  [][]string // lines under the header, of the store's id and its attempts
	book []string   // a row of the sheet each, as lineOf says it
}

func attemptsOf(t tb, r *report.Reporter, h protocol.ReportHead, rows report.Rows) toldAttempts {
	t.Helper()
	files := map[string]string{}
	for _, ext := range []string{"json", "csv", "xlsx"} {
		var b strings.Builder
		if err := r.Write(&b, ext, h, rows); err != nil {
			t.Fatal(err)
		}
		files[ext] = b.String()
	}
	var told toldAttempts
	var doc struct {
		Stores []json.RawMessage `json:"stores"`
	}
	if err := json.Unmarshal([]byte(files["json"]), &doc); err != nil {
		t.Fatal(err)
	}
	for _, raw := range doc.Stores {
		var row protocol.StoreRow
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &row) != nil || json.Unmarshal(raw, &members) != nil {
			t.Fatalf("no row: %s", raw)
		}
		told.json, told.raw = append(told.json, row), append(told.raw, string(members["attempts"]))
	}
	lines, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(files["csv"], "\ufeff"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := slices.Index(lines[0], "attempts")
	for _, line := range lines[1:] {
		told.csv = append(told.csv, []string{unguard(line[0]), line[column]})
	}
	told.book = sheetLines(t, readXLSX(t, files["xlsx"]))
	return told
}

// sheetLines are the rows of the sheet of attempts, which has as many as it says.
func sheetLines(t tb, b book) (lines []string) {
	t.Helper()
	rows := b.sheets[attemptsSheet]
	if dimension := fmt.Sprintf(`<dimension ref="A1:N%d"`, len(rows)); !strings.Contains(b.parts[sheetPart(attemptsSheet+1)], dimension) {
		t.Fatalf("the sheet has %d rows, and no %s", len(rows), dimension)
	}
	for i := range rows[1:] {
		cell := func(english string) xlsxCell { return b.under(attemptsSheet, english, i+1) }
		moment := func(english string) string { return valueOf(t, cell(english+" (Asia/Shanghai)"), protocol.ColumnTime) }
		lines = append(lines, strings.Join([]string{cell("Store").show(), cell("Name").show(), cell("Attempt").show(), cell("How it ended").show(), cell("Error code").show(),
			cell("Error message").show(), moment("Granted"), moment("Started"), moment("Ended"), cell("Terminal").show(), cell("Exit code").show(), cell("Result bytes").show(),
			cell("Result SHA-256").show(), cell("Task").show()}, " | "))
	}
	return lines
}

// lineOf is the row that a sheet is to have of an attempt.
func lineOf(row protocol.StoreRow, try protocol.Try) string {
	text := func(s string) string {
		if s == "" {
			return ""
		}
		return strconv.Quote(workbook.Shown(s))
	}
	moment := func(at protocol.Time) string {
		if at.IsZero() {
			return "null"
		}
		return at.In(zone).Format("2006-01-02T15:04:05.000Z07:00")
	}
	ended, exit := map[protocol.Answer]string{protocol.AnswerSucceeded: "成功 succeeded", protocol.AnswerFailed: "失败 failed", protocol.AnswerCancelled: "已取消 cancelled", "": "没有答复 no answer"}[try.Answer], ""
	if try.Answer == "" && try.EndedAt.IsZero() {
		ended = "未结束 not ended"
	}
	if try.Answer == protocol.AnswerSucceeded && try.Code != "" {
		ended = "结果未被接受 answer refused"
	}
	if try.ExitCode != nil {
		exit = strconv.Itoa(*try.ExitCode)
	}
	return strings.Join([]string{text(row.StoreID), text(row.Name), strconv.Itoa(try.Attempt), text(ended), text(string(try.Code)), text(try.Message), moment(try.GrantedAt), moment(try.StartedAt),
		moment(try.EndedAt), text(try.TerminalID), exit, strconv.FormatInt(try.Bytes, 10), text(try.SHA256), text(row.TaskID)}, " | ")
}

// others says where the CSV file and the workbook tell other attempts than the JSON file: its
// lists, and of a store without one the attempt that the row is.
func (told toldAttempts) others() (differences []string) {
	var want []string
	for i, row := range told.json {
		if i >= len(told.csv) || told.csv[i][0] != row.StoreID || told.csv[i][1] != told.raw[i] {
			differences = append(differences, fmt.Sprintf("CSV: store %s has not %s", row.StoreID, told.raw[i]))
		}
		if tries := row.Tries; tries != nil || row.Attempt == 0 {
			for _, try := range tries {
				want = append(want, lineOf(row, try))
			}
			continue
		}
		want = append(want, lineOf(row, protocol.Try{Attempt: row.Attempt, TerminalID: row.TerminalID, GrantedAt: row.Evidence.GrantedAt, StartedAt: row.Evidence.StartedAt,
			EndedAt: row.FinishedAt, Answer: protocol.AnswerSucceeded, SHA256: row.SHA256, Bytes: row.Bytes}))
	}
	if !slices.Equal(told.book, want) {
		differences = append(differences, fmt.Sprintf("XLSX:\n%s\nwant\n%s", strings.Join(told.book, "\n"), strings.Join(want, "\n")))
	}
	return differences
}

// anyTries is a store at which nothing was attempted, one attempt succeeded, or several ended somehow.
func anyTries(t *rapid.T, id string) protocol.StoreRow {
	if rapid.IntRange(0, 3).Draw(t, "at once") == 0 {
		return row(id, anyString.Draw(t, "name"), task.OutcomeSucceeded, "")
	}
	moment := func(name string) protocol.Time {
		return protocol.At(time.UnixMilli(rapid.Int64Range(1_500_000_000_000, 1_900_000_000_000).Draw(t, name)))
	}
	r := row(id, anyString.Draw(t, "name"), task.OutcomeFailed, task.ReasonAttemptsExhausted)
	for range rapid.IntRange(0, 4).Draw(t, "tries") {
		r.Attempt += rapid.IntRange(1, 3).Draw(t, "further")
		try := protocol.Try{Attempt: r.Attempt, TerminalID: rapid.SampledFrom([]string{"007", "1E5", "pos-1", "-"}).Draw(t, "terminal"), GrantedAt: moment("granted"),
			Answer: rapid.SampledFrom([]protocol.Answer{"", "", "failed", "succeeded", "cancelled"}).Draw(t, "answer"), Code: protocol.Code(rapid.SampledFrom([]string{"", "EXECUTION", "=1+1"}).Draw(t, "code")),
			Message: anyString.Draw(t, "message"), ExitCode: rapid.Ptr(rapid.IntRange(-1<<31, 1<<31), true).Draw(t, "exit code"), Bytes: rapid.Int64Range(0, 1<<40).Draw(t, "bytes")}
		if rapid.Bool().Draw(t, "was started") {
			try.StartedAt = moment("started")
		}
		if rapid.Bool().Draw(t, "has ended") {
			try.EndedAt, try.SHA256 = moment("ended"), strings.Repeat("0123456789abcdef", 4)
		}
		r.Tries = append(r.Tries, try)
	}
	return r
}

// TestAttemptsAreTheSameInEveryFormat, whatever they say: the CSV file has the very list of the JSON
// file, the workbook a row each, and the page a line.
func TestAttemptsAreTheSameInEveryFormat(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		list := make([]protocol.StoreRow, rapid.IntRange(1, 4).Draw(t, "stores"))
		for i := range list {
			list[i] = anyTries(t, "00"+strconv.Itoa(i))
		}
		rows := rowsOf(t, list...)
		told := attemptsOf(t, r, head(len(list)), rows)
		if others := told.others(); len(others) > 0 {
			t.Fatal(strings.Join(others, "\n"))
		}
		for _, line := range told.csv {
			if list := line[1]; list != "" && list[0] != '[' || strings.ContainsAny(list, "\r\n") {
				t.Fatalf("a spreadsheet may run %q", list)
			}
		}
		var page strings.Builder
		if err := r.Write(&page, "html", head(len(list)), rows); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(page.String(), "<li>#"); n != len(told.book) {
			t.Fatalf("the page unfolds %d attempts, the workbook has %d", n, len(told.book))
		}
	})
}

// TestAnAttemptLeftOutIsFound by what the test above compares with, in either file.
func TestAnAttemptLeftOutIsFound(t *testing.T) {
	t.Parallel()
	failed := row("B", "b", task.OutcomeFailed, task.ReasonAttemptsExhausted)
	twice(&failed)
	told := attemptsOf(t, setup(t), head(2), rowsOf(t, row("A", "a", task.OutcomeSucceeded, ""), failed))
	if others := told.others(); len(told.book) != 3 || len(others) > 0 {
		t.Fatalf("%d attempts, %v", len(told.book), others)
	}
	for i := range told.book {
		spoiled := told
		spoiled.book = slices.Delete(slices.Clone(told.book), i, i+1)
		if len(spoiled.others()) != 1 {
			t.Errorf("a workbook without attempt %d is as the JSON file", i)
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(told.csv[1][1]), &list); err != nil || len(list) != 2 {
		t.Fatalf("%q: %v", told.csv[1][1], err)
	}
	told.csv[1][1] = "[" + string(list[1]) + "]"
	if len(told.others()) != 1 {
		t.Error("a CSV file without an attempt is as the JSON file")
	}
}

// TestALargeReportUnfoldsWhatItsRowsDoNotTell: in the workbook as on the page, the stores that did
// not succeed at the first attempt.
func TestALargeReportUnfoldsWhatItsRowsDoNotTell(t *testing.T) {
	t.Parallel()
	const targets = 10_001
	r := setup(t)
	list := make([]protocol.StoreRow, targets)
	for i := range list {
		list[i] = row(fmt.Sprintf("S%06d", i), "店", task.OutcomeSucceeded, "")
	}
	twice(&list[500])
	list[500].Evidence.Attempts = 2
	list[501].Outcome, list[501].Reason, list[501].Status = task.OutcomeTimedOut, task.ReasonStillRunning, task.Running
	for _, c := range []struct {
		stores, attempts int
	}{{targets, 3}, {targets - 1, targets}} {
		rows := rowsOf(t, list[:c.stores]...)
		h := build(t, r, head(c.stores), rows, nil)
		b := unzipped(t, write(t, r, "xlsx", h, rows))
		sheet := b.rows(t, attemptsSheet+1)[1:]
		if onPage := strings.Count(write(t, r, "html", h, rows), "<li>#"); len(sheet) != c.attempts || onPage != c.attempts {
			t.Errorf("of %d stores, the workbook has %d attempts and the page %d; want %d", c.stores, len(sheet), onPage, c.attempts)
		}
	}
}
