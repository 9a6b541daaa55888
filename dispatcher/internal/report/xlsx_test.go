package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
	"pgregory.net/rapid"

	"muster/dispatcher/internal/report/workbook"
	"muster/internal/protocol"
	"muster/internal/task"
)

// The sheets of a workbook.
const (
	summarySheet = iota
	storesSheet
	missingSheet
	attemptsSheet
	revisionsSheet
	regionsSheet
	metadataSheet // where a job has totals, these, and metadata one further
)

// one is the workbook of a report of one store.
func one(t testing.TB, spoil func(*protocol.ReportHead, *protocol.StoreRow)) book {
	t.Helper()
	h, only := head(1), row("007", "店", task.OutcomeSucceeded, "")
	spoil(&h, &only)
	r, rows := setup(t), rowsOf(t, only)
	return readXLSX(t, write(t, r, "xlsx", build(t, r, h, rows, nil), rows))
}

func TestTenStoresInTheWorkbook(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rows := rowsOf(t, tenStores()...)
	got := readXLSX(t, write(t, r, "xlsx", build(t, r, head(10), rows, nil), rows)).dump()
	golden := filepath.Join("testdata", "ten_stores.xlsx.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the workbook differs from %s; run with -update and read the diff", golden)
	}
}

// hostile is text that some spreadsheet runs, follows or loads somewhere.
var hostile = []string{
	"=cmd|' /C calc'!A0", "=1+1", "+1+1", "-2+3", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", `",=1+1,"`, "＝1+1", ";=1+1", " =1+1", "'=1+1",
	`=HYPERLINK("http://evil.example","x")`, "http://evil.example", "mailto:a@evil.example", `\\evil\share`, `=WEBSERVICE("http://evil.example")`,
	"DDE(\"cmd\";\"/C calc\")", "{=1+1}", "</t></is><f>1+1</f>", "]]><f>1+1</f>", "<f>1+1</f>", "&lt;f&gt;", "&#61;1+1", "_x003D_1+1", "_x000D_=1+1",
	"007", "1E5", "TRUE", "2026-09-17", "\u202e=1+1", "\x00=1+1", "\ufeff=1+1", "\uffff=1", "\U0001f3f4=1",
}

// TestS23SpreadsheetsFindNoFormulaInTheXLSX: whatever stores and people write,
// every cell that it makes is a string, and the workbook has nothing that runs
// or points outside.
func TestS23SpreadsheetsFindNoFormulaInTheXLSX(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for _, text := range hostile {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		bad := valued(row("007", text, task.OutcomeFailed, task.ReasonExecutionError), string(quoted), `[`+string(quoted)+`]`)
		bad.Error = &protocol.Failure{Code: protocol.Code(text), Path: text, Message: text}
		bad.TerminalID, bad.Labels = text, map[string]string{text: text}
		bad.Tries = []protocol.Try{{Attempt: 1, TerminalID: text, GrantedAt: at(1), Code: protocol.Code(text), Message: text}}
		h := head(1)
		h.RequestedBy, h.ApprovedBy, h.Reason, h.Input = text, text, text, json.RawMessage(`{"a":`+string(quoted)+`}`)
		h.Columns[0].Title, h.Columns[0].TitleZh, h.Columns[0].Unit, h.Columns[0].UnitZh = text, text, text, text
		rows := rowsOf(t, bad)
		if h, err = r.Build(h, rows, nil); err != nil {
			t.Fatal(err)
		}
		file := write(t, r, "xlsx", h, rows)
		b := readXLSX(t, file)
		inert(t, b, text)
		inertForTheLibrary(t, file, text)
		name, value, message := b.under(storesSheet, "Name", 1), b.under(storesSheet, "note (text)", 1), b.under(attemptsSheet, "Error message", 1)
		if name.Type != "inlineStr" || value.Type != "inlineStr" || message.show() != name.show() || strings.HasPrefix(name.show(), `"'`) != strings.HasPrefix(text, "'") {
			t.Errorf("%q became %s and %s", text, name.show(), value.show())
		}
	}
}

func inert(t *testing.T, b book, text string) {
	t.Helper()
	known := []string{"[Content_Types].xml", "_rels/.rels", "docProps/app.xml", "docProps/core.xml", "xl/_rels/workbook.xml.rels", "xl/styles.xml",
		"xl/theme/theme1.xml", "xl/workbook.xml", "xl/worksheets/sheet7.xml", "xl/worksheets/sheet6.xml", "xl/worksheets/sheet5.xml", "xl/worksheets/sheet4.xml", "xl/worksheets/sheet3.xml",
		"xl/worksheets/sheet2.xml", "xl/worksheets/sheet1.xml"}
	if !slices.Equal(b.order, known) {
		t.Errorf("%q: the workbook has the parts %q", text, b.order)
	}
	for name, part := range b.parts {
		for _, live := range []string{"<f>", "<f ", "<hyperlink", "externalLink", "externalReference", "connections", "vbaProject", "macro", "oleObject",
			"ddeLink", "oleLink", "queryTable", "webPublish", `TargetMode="External"`, "<!DOCTYPE", "quotePrefix"} {
			if strings.Contains(part, live) {
				t.Errorf("%q: %s has %s", text, name, live)
			}
		}
	}
	for i, rows := range b.sheets {
		for _, row := range rows {
			for _, c := range row.Cells {
				if c.Formula != nil || c.Type != "" && c.Type != "inlineStr" || (c.Type == "inlineStr") == (c.Text == nil) {
					t.Errorf("%q: cell %s of sheet %d is of type %q", text, c.Ref, i, c.Type)
				}
			}
		}
	}
}

func inertForTheLibrary(t *testing.T, file, text string) {
	t.Helper()
	f, err := excelize.OpenReader(strings.NewReader(file))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	defer func() { _ = f.Close() }()
	for _, sheet := range f.GetSheetList() {
		rows, err := f.GetRows(sheet)
		if err != nil {
			t.Fatal(err)
		}
		for y, row := range rows {
			for x := range row {
				ref, err := excelize.CoordinatesToCellName(x+1, y+1)
				if err != nil {
					t.Fatal(err)
				}
				formula, formulaErr := f.GetCellFormula(sheet, ref)
				link, _, linkErr := f.GetCellHyperLink(sheet, ref)
				if formula != "" || link || formulaErr != nil || linkErr != nil {
					t.Errorf("%q: the library finds formula %q, link %t in %s of %s (%v, %v)", text, formula, link, ref, sheet, formulaErr, linkErr)
				}
			}
		}
	}
}

func TestIdsStayTextInTheWorkbook(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"007", "1E5", "06-8108", "2.50", "12345678901234567890", "TRUE", "1_x0041_x0042_"} {
		b := one(t, func(_ *protocol.ReportHead, r *protocol.StoreRow) { r.StoreID, r.TaskID, r.TerminalID = id, id, id })
		for i, column := range []string{"Store", "Task", "Terminal", "Store", "Task", "Terminal"} {
			if c := b.under([]int{storesSheet, attemptsSheet}[i/3], column, 1); c.Type != "inlineStr" || c.show() != `"`+id+`"` {
				t.Errorf("%s %q became %q of type %q", column, id, c.show(), c.Type)
			}
		}
	}
}

func TestNumbersInTheWorkbookKeepTheirValue(t *testing.T) {
	t.Parallel()
	for digits, number := range map[string]bool{
		"0": true, "-5": true, "1.0": true, "0.1": true, "123456789012345": true, "1E5": true, "-2.50e-3": true, "1e300": true, "1000000000000000000000": true,
		"-0": false, "1234567890123456": false, "9007199254740993": false, "0.1234567890123456": false, "1e301": false, "1e-301": false,
	} {
		want := `"` + digits + `"`
		if number {
			want = digits
		}
		b := one(t, func(_ *protocol.ReportHead, r *protocol.StoreRow) { valued(*r, digits, "null") })
		if c := b.under(storesSheet, "lines", 1); c.show() != want {
			t.Errorf("%s became %s; want %s", digits, c.show(), want)
		}
	}
	b := one(t, func(_ *protocol.ReportHead, r *protocol.StoreRow) { valued(*r, `"5"`, "true") })
	for column, want := range map[string]string{"lines": `"5"`, "note (text)": `"true"`} {
		if c := b.under(storesSheet, column, 1); c.show() != want {
			t.Errorf("%s: got %s; want %s", column, c.show(), want)
		}
	}
}

func TestTimesInTheWorkbookAreHeadquartersDates(t *testing.T) {
	t.Parallel()
	b := one(t, func(_ *protocol.ReportHead, r *protocol.StoreRow) {
		r.FinishedAt = protocol.At(at(0).UTC().Add(1234 * time.Millisecond)) // whatever zone it came in
		r.Evidence.StartedAt = protocol.At(time.Date(1900, 1, 1, 0, 0, 0, 0, zone))
		r.Evidence.ReadyAt = protocol.Time{}
	})
	finished := b.under(storesSheet, "Finished (Asia/Shanghai)", 1)
	var days float64
	if _, err := fmt.Sscan(finished.Number, &days); err != nil || finished.Type != "" {
		t.Fatalf("got %+v, %v", finished, err)
	}
	start := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	got := start.Add(time.Duration(days * float64(24*time.Hour)))
	if want := time.Date(2026, 9, 17, 18, 28, 1, 234e6, time.UTC); got.Sub(want).Abs() > time.Millisecond/10 {
		t.Errorf("got %s; want the wall clock %s", got, want)
	}
	if c := b.under(storesSheet, "Started (Asia/Shanghai)", 1); c.show() != `"1900-01-01T00:00:00.000+08:00"` {
		t.Errorf("a date that spreadsheets count in another way: got %s; want text", c.show())
	}
	if c := b.under(storesSheet, "Ready (Asia/Shanghai)", 1); c.Ref != "" {
		t.Errorf("no time makes the cell %+v", c)
	}
}

func TestLongTextIsCutVisiblyAndCounted(t *testing.T) {
	t.Parallel()
	const limit = 32767
	for _, c := range []struct {
		text, mark string // no mark: it fits
	}{
		{strings.Repeat("x", limit), ""},
		{strings.Repeat("店", limit), ""},
		{strings.Repeat("😀", limit/2) + "x", ""}, // a face is two units
		{strings.Repeat("x", limit+1), " … [已截断 cut: 32768]"},
		{strings.Repeat("店", protocol.MaxResultBytes/3), fmt.Sprintf(" … [已截断 cut: %d]", protocol.MaxResultBytes/3)},
		{"x" + strings.Repeat("😀", limit/2), ""},
		{"xx" + strings.Repeat("😀", limit/2), fmt.Sprintf(" … [已截断 cut: %d]", 2+limit/2)},
	} {
		quoted, err := json.Marshal(c.text)
		if err != nil {
			t.Fatal(err)
		}
		b := one(t, func(_ *protocol.ReportHead, r *protocol.StoreRow) { valued(*r, string(quoted), "null") })
		got := *b.under(storesSheet, "lines", 1).Text
		kept, marked := strings.CutSuffix(got, c.mark)
		if units := len(utf16.Encode([]rune(got))); units > limit || c.mark != "" && units < limit-1 || strings.ContainsRune(got, utf8.RuneError) {
			t.Errorf("%.9s of %d bytes fills %d units", c.text, len(c.text), units)
		}
		if !marked || !strings.HasPrefix(c.text, kept) || c.mark == "" && got != c.text {
			t.Errorf("%.9s of %d bytes ends in %q; want %q", c.text, len(c.text), got[max(0, len(got)-40):], c.mark)
		}
		want := "0"
		if c.mark != "" {
			want = "1"
		}
		if got := b.summary("cells that were cut"); got != want {
			t.Errorf("%.9s of %d bytes: %s cells are counted as cut; want %s", c.text, len(c.text), got, want)
		}
	}
}

// TestAnyTextStandsInTheWorkbook: what a reader of XML, and the library, find
// in a cell is the text, but for what is shown instead of acting.
func TestAnyTextStandsInTheWorkbook(t *testing.T) {
	t.Parallel()
	r := setup(t)
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"_x", "0041", "_", "x005F", "_x0041_", "=", "<f>", "&lt;", "]]>", " ", "\n", "\t", "\r", "店", "\x01", "\uffff"}), 0, 12)
	anyText := rapid.OneOf(rapid.String(), rapid.Map(pieces, func(p []string) string { return strings.Join(p, "") }))
	rapid.Check(t, func(t *rapid.T) {
		text := anyText.Draw(t, "text")
		want := workbook.Shown(text)
		if strings.ContainsFunc(want, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == '\uffff' || r == '\ufffe' }) {
			t.Fatalf("%q is shown as %q", text, want)
		}
		rows := rowsOf(t, row("A", text, task.OutcomeOffline, task.ReasonWentOffline))
		var file bytes.Buffer
		if err := r.Write(&file, "xlsx", head(1), rows); err != nil {
			t.Fatal(err)
		}
		b := readXLSX(t, file.String())
		for _, sheet := range []int{storesSheet, missingSheet} {
			c := b.under(sheet, "Name", 1)
			if (c.Text == nil) != (text == "") || c.Text != nil && unescaped(*c.Text) != want {
				t.Fatalf("%q became %q; want %q", text, c.show(), want)
			}
		}
	})
}

func TestTheWorkbookIsTheSameBytesAtAnyTime(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rows := rowsOf(t, tenStores()...)
	h := build(t, r, head(10), rows, nil)
	synctest.Test(t, func(t *testing.T) {
		first := write(t, r, "xlsx", h, rows)
		for range 50 {
			time.Sleep(31 * time.Hour) // of the bubble's clock
			if write(t, r, "xlsx", h, rows) != first {
				t.Fatalf("at %s the workbook has other bytes", time.Now())
			}
		}
	})
}

func TestTheWorkbookIsWrittenWhileRowsAreRead(t *testing.T) {
	t.Parallel()
	const targets = 12_000
	r := setup(t)
	var written, atTheLast counter
	rows := func(yield func(json.RawMessage, error) bool) {
		for raw, err := range endless(t, targets) {
			atTheLast = written
			if !yield(raw, err) {
				return
			}
		}
	}
	h, err := r.Build(head(targets), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(&written, "xlsx", h, rows); err != nil {
		t.Fatal(err)
	}
	if held := written - atTheLast; held > written/4 || written < 1<<20 {
		t.Errorf("of %d bytes, %d were held back until the last row was read", written, held)
	}
}

// fullDisk takes so many bytes.
type fullDisk struct{ left int }

var errFull = errors.New("the disk is full")

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestAWorkbookThatCannotBeWrittenIsSaid(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rows := rowsOf(t, tenStores()...)
	h := build(t, r, head(10), rows, nil)
	whole := len(write(t, r, "xlsx", h, rows))
	for left := 0; left < whole; left += whole / 8 {
		if err := r.Write(&fullDisk{left: left}, "xlsx", h, rows); !errors.Is(err, errFull) {
			t.Errorf("after %d of %d bytes: got %v", left, whole, err)
		}
	}
}
