package report_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"muster/dispatcher/internal/report"
	"muster/internal/protocol"
	"muster/internal/task"
)

// typed is a report of four targets, of which three answered and two with a number.
func typed(t *testing.T) (*report.Reporter, protocol.ReportHead, report.Rows) {
	t.Helper()
	h := head(4)
	h.Columns[0].Type, h.Columns[0].Aggregate = protocol.ColumnInteger, []protocol.Aggregate{"sum", "top"}
	h.Columns[0].Unit, h.Columns[0].UnitZh = "lines", "行"
	h.Columns[1].Unit, h.Columns[1].UnitZh, h.Columns[1].Type, h.Columns[1].Aggregate = "", "", protocol.ColumnDate, []protocol.Aggregate{"max", "count"}
	rows := rowsOf(t, valued(row("A", "a", task.OutcomeSucceeded, ""), "1200", `"2026-09-16"`), valued(row("B", "b", task.OutcomeSucceeded, ""), "34", `"2026-09-17"`),
		valued(row("C", "c", task.OutcomeSucceeded, ""), `"34"`, "null"), row("D", "d", task.OutcomeOffline, task.ReasonOfflineWholeWindow))
	r := setup(t)
	return r, build(t, r, h, rows, nil), rows
}

// TestATotalIsTheSameInEveryFormat: with the stores that it speaks of, and who is in none.
func TestATotalIsTheSameInEveryFormat(t *testing.T) {
	t.Parallel()
	r, h, rows := typed(t)
	if err := r.Check(h, rows); err != nil {
		t.Fatal(err)
	}
	var doc protocol.Report
	if err := json.Unmarshal([]byte(write(t, r, "json", h, rows)), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Totals) != 2 || string(doc.Totals[0].Sum) != "1234" || doc.Totals[0].Stores != 2 || doc.Totals[0].Of != 4 || !slices.Equal(doc.Totals[0].WrongTypeIDs, []string{"C"}) {
		t.Errorf("JSON: %+v", doc.Totals)
	}
	page := write(t, r, "html", h, rows)
	for _, want := range []string{`<dt><span lang="zh">合计</span> <span lang="en">sum</span></dt><dd><span lang="zh">1,234 行</span> <span lang="en">1,234 lines</span> ` +
		`<small class="soft"><span lang="zh">2 / 4 家门店</span> <span lang="en">2 of 4 stores</span></small></dd>`, `1 with a value of another type, in no total`, `<p><bdi>C</bdi></p>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	var got []string
	for _, row := range readXLSX(t, write(t, r, "xlsx", h, rows)).sheets[metadataSheet][1:] {
		var cells []string
		for _, column := range []string{"B", "C", "E", "F", "G", "H", "I"} {
			cells = append(cells, row.cell(column).show())
		}
		got = append(got, strings.Join(cells, " "))
	}
	want := []string{`"有值 with a value"  "行 lines"  2 2 4`, `"合计 sum" 1234 "行 lines"   2 4`, `"最大的门店 stores with the most" 1200 "行 lines" "A"  2 4`,
		`"最大的门店 stores with the most" 34 "行 lines" "B"  2 4`, `"类型不符 of another type"  "行 lines"  1 2 4`, `"类型不符的门店 store with another type"  "行 lines" "C"  2 4`,
		`"有值 with a value"    2 2 4`, `"最晚 latest" 46282    2 4`, `"各值的门店数 stores by value" 46281   1 2 4`, `"各值的门店数 stores by value" 46282   1 2 4`}
	if !slices.Equal(got, want) {
		t.Errorf("XLSX:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestATotalThatTheRowsDoNotAmountToIsNotPublished: as a count is not.
func TestATotalThatTheRowsDoNotAmountToIsNotPublished(t *testing.T) {
	t.Parallel()
	r, h, rows := typed(t)
	for name, spoil := range map[string]func(*protocol.Total){
		"sum":      func(total *protocol.Total) { total.Sum = json.RawMessage("1235") },
		"coverage": func(total *protocol.Total) { total.Stores = 3 },
		"of":       func(total *protocol.Total) { total.Of = 3 },
	} {
		spoilt := h
		spoilt.Totals = slices.Clone(h.Totals)
		spoil(&spoilt.Totals[0])
		if err := r.Check(spoilt, rows); !errors.Is(err, report.ErrSumRule) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.Totals = nil
	if err := r.Check(h, rows); !errors.Is(err, report.ErrSumRule) {
		t.Errorf("none: %v", err)
	}
}
