package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/xuri/excelize/v2"
	"pgregory.net/rapid"

	"muster/dispatcher/internal/report"
	"muster/internal/protocol"
	"muster/internal/task"
)

func readCSV(t *testing.T, text string) [][]string {
	t.Helper()
	bare, hasMark := strings.CutPrefix(text, "\ufeff")
	if !hasMark {
		t.Error("no byte order mark")
	}
	lines, err := csv.NewReader(strings.NewReader(bare)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// unguard undoes what csvRules tells a reader to undo.
func unguard(cell string) string {
	parts := regexp.MustCompile(`[\r\n]+`).Split(cell, -1)
	breaks := regexp.MustCompile(`[\r\n]+`).FindAllString(cell, -1)
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(strings.TrimPrefix(part, "'"))
		if i < len(breaks) {
			b.WriteString(breaks[i])
		}
	}
	return b.String()
}

func TestCSVGivesEveryTextBack(t *testing.T) {
	t.Parallel()
	r := setup(t)
	list := tenStores()
	rows := rowsOf(t, list...)
	text := write(t, r, "csv", build(t, r, head(10), rows, nil), rows)
	lines := readCSV(t, text)
	if len(lines) != 11 {
		t.Fatalf("got %d lines; want a header and ten rows", len(lines))
	}
	for i, want := range list {
		got := lines[i+1]
		if unguard(got[0]) != want.StoreID || got[2] != string(want.Outcome) || unguard(got[3]) != string(want.Reason) {
			t.Errorf("row %d: got %q", i, got[:4])
		}
		if name := strings.ReplaceAll(want.Name, "\r\n", "\n"); unguard(got[1]) != name { // the reader folds CRLF
			t.Errorf("row %d: got name %q; want %q", i, got[1], want.Name)
		}
	}
	body := strings.TrimSuffix(text, "\r\n")
	if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", ""), "missing\n", ""), "\n") {
		t.Error("a line does not end with CRLF")
	}
}

func TestTextCells(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                    "",
		"007":                 "'007",
		"1E5":                 "'1E5",
		"06-8108":             "'06-8108",
		"123456789012345678":  "'123456789012345678",
		"2026-09-17":          "'2026-09-17",
		"2026年9月17日":          "'2026年9月17日",
		"10:30":               "'10:30",
		"10:30 PM":            "'10:30 PM",
		"MAR1":                "'MAR1",
		"2-Sep":               "'2-Sep",
		"TRUE":                "'TRUE",
		"=1+1":                "'=1+1",
		"+1":                  "'+1",
		"-1+1":                "'-1+1",
		"-cmd":                "'-cmd",
		"@SUM(A1)":            "'@SUM(A1)",
		"\t=1":                "'\t=1",
		"\ttab":               "'\ttab",
		"\r=1":                "\r'=1",
		"  =1":                "'  =1",
		"\u00a0=1":            "'\u00a0=1",
		"\ufeff=1":            "'\ufeff=1",
		"\u202e=1":            "'\u202e=1",
		"\x00=1":              "'\x00=1",
		"＝1+1":                "'＝1+1",
		"ok\n=1":              "ok\n'=1",
		"ok\r\n\r\n -1-1\nok": "ok\r\n\r\n' -1-1\nok",
		"'=1":                 "''=1",
		"-5":                  "-5",
		"-2.50":               "-2.50",
		" -5":                 "' -5",
		"0":                   "0",
		"42":                  "42",
		"3.14":                "3.14",
		"SH_0312":             "SH_0312",
		"12 rue de la Paix":   "12 rue de la Paix",
		"Marché":              "Marché",
		"上海虹桥店":               "上海虹桥店",
		"a=1":                 "a=1",
	} {
		if got := report.TextCell(text); got != want {
			t.Errorf("%q: got %q; want %q", text, got, want)
		}
	}
}

func TestAnyTextIsInertAndComesBack(t *testing.T) {
	t.Parallel()
	anyText := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("=+-@'\t\r\n 07eE.,;\"a＝\u202e店")), 0, 12, -1))
	plain := regexp.MustCompile(`^-?\d+(\.\d+)?$`)
	rapid.Check(t, func(t *rapid.T) {
		text := anyText.Draw(t, "text")
		cell := report.TextCell(text)
		if back := unguard(cell); back != text {
			t.Fatalf("%q became %q and reads back as %q", text, cell, back)
		}
		for _, line := range regexp.MustCompile(`[\r\n]+`).Split(cell, -1) {
			bare := strings.TrimFunc(line, func(r rune) bool {
				return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
			})
			if bare != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(bare)[0]) && !plain.MatchString(line) {
				t.Fatalf("%q became %q, which a spreadsheet would run", text, cell)
			}
		}
	})
}

// TestTheQuickLookLetsNothingPassThatThePatternsCatch, however months, numbers and
// what spreadsheets strip are mixed.
func TestTheQuickLookLetsNothingPassThatThePatternsCatch(t *testing.T) {
	t.Parallel()
	pieces := rapid.SampledFrom([]string{"jan", "SEP", "\u017fep", "Dec", "ember", "true", "FALSE", "fal\u017fe", "1", "06", "2026", "e", "E", "am", "P", "_", "-", "/", ".", " ", ",", "年", "店", "\u3000", "\u200b", "\u00a0", "\t", "=", "+", "＝", "ab", "x", "%", ":"})
	text := rapid.OneOf(rapid.Map(rapid.SliceOfN(pieces, 0, 5), func(p []string) string { return strings.Join(p, "") }), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		if line := text.Draw(t, "line"); report.Harmless(line) && report.Matches(line) {
			t.Fatalf("%q passes", line)
		}
	})
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if line := string(r) + "=1"; report.Harmless(line) && report.Matches(line) {
			t.Errorf("%q passes", line)
		}
	}
	for _, usual := range []string{"S000001", "pos-1", "succeeded", "attempts_exhausted", "上海虹桥店", "region=east", "01J7ZK3N8Q4V5W6X7Y8Z9A0BCD", strings.Repeat("0a1b", 16)} {
		if !report.Harmless(usual) {
			t.Errorf("%q goes to the patterns", usual)
		}
	}
}

func TestPageLoadsNothingAndRunsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rows := rowsOf(t, tenStores()...)
	page := write(t, r, "html", build(t, r, head(10), rows, nil), rows)
	for _, bad := range []string{"<script>alert", "<img", "<link", "http:", "https:", "url(", "@import", "javascript:",
		"\u202e", "\u2066", "\u2028", "\x00", "</bdi></td><img"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(html.UnescapeString(page), "[U+202E]evil[U+2066] name␀") {
		t.Error("direction marks and control characters are not shown")
	}
	for _, good := range []string{"&lt;script&gt;alert(1)&lt;/script&gt;", "👨‍👩‍👧 店",
		`<html lang="zh-CN">`, "9007199254740993", "<td class=\"v n\"><bdi>1.0</bdi></td>", "<td class=\"v\"><bdi>-2.50</bdi></td>"} {
		if !strings.Contains(page, good) {
			t.Errorf("the page misses %q", good)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
	sum := sha256.Sum256([]byte(style[1]))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	script := regexp.MustCompile(`(?s)<script>(.*)</script>`).FindStringSubmatch(page)
	sum = sha256.Sum256([]byte(script[1]))
	policy += "; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	if !strings.Contains(page, policy) {
		t.Errorf("the policy does not allow the page's own style and script, and nothing else: want %s", policy)
	}
	if strings.Index(page, `id="missing"`) > strings.Index(page, `id="stores"`) {
		t.Error("what is missing stands after the table of all")
	}
}

// pageCounts reads the counts and the number of rows out of a page; that it
// parses at all as XML (void elements closed by hand) shows that tags balance.
func pageCounts(t tb, page string) (counts []int, rows int) {
	t.Helper()
	page = regexp.MustCompile(`(?s)<script.*</script>`).ReplaceAllString(page, "")
	void := regexp.MustCompile(`<(meta)([^>]*)>`)
	dec := xml.NewDecoder(strings.NewReader(void.ReplaceAllString(strings.TrimPrefix(page, "<!DOCTYPE html>"), "<$1$2/>")))
	dec.Entity = xml.HTMLEntity
	table := ""
	for {
		token, err := dec.Token()
		if err == io.EOF { //nolint:errorlint // the decoder returns it bare
			return counts, rows
		}
		if err != nil {
			t.Fatalf("the page does not parse: %v", err)
		}
		if token, ok := token.(xml.StartElement); ok {
			for _, a := range token.Attr {
				switch {
				case token.Name.Local == "table" && a.Name.Local == "id":
					table = a.Value
				case token.Name.Local == "data" && a.Name.Local == "value" && table == "counts":
					n, err := strconv.Atoi(a.Value)
					if err != nil {
						t.Fatalf("the page counts %q", a.Value)
					}
					counts = append(counts, n)
				}
			}
			if token.Name.Local == "tr" && table == "stores" {
				rows++
			}
		}
	}
}

func TestEveryFormatSaysTheSame(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.String(), 1, 12).Draw(t, "names")
		list := make([]protocol.StoreRow, len(names))
		for i, name := range names {
			outcome := rapid.SampledFrom(task.Outcomes()).Draw(t, "outcome")
			list[i] = row(fmt.Sprintf("S%03d", i), name, outcome, rapid.SampledFrom(outcome.Reasons()).Draw(t, "reason"))
		}
		rows := rowsOf(t, list...)
		same(t, r, len(list), rows)
	})
}

func same(t *rapid.T, r *report.Reporter, targets int, rows report.Rows) {
	h, err := r.Build(head(targets), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(h, rows); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, format := range r.Formats() {
		var b bytes.Buffer
		if err := r.Write(&b, format.Ext, h, rows); err != nil {
			t.Fatal(err)
		}
		files[format.Ext] = b.String()
	}
	var back protocol.Report
	if err := json.Unmarshal([]byte(files["json"]), &back); err != nil {
		t.Fatal(err)
	}
	inCSV := protocol.Counts{}
	lines, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(files["csv"], "\ufeff"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		inCSV.Add(task.Outcome(line[2]))
	}
	c := back.Counts
	want := []int{c.Succeeded, c.Failed, c.TimedOut, c.Offline, c.Cancelled, targets}
	workbook := readXLSX(t, files["xlsx"])
	if said, stores, missing := workbookCounts(t, workbook); said != fmt.Sprint(want) || stores != c || missing.Succeeded != 0 || missing.Sum() != targets-c.Succeeded {
		t.Fatalf("JSON %v, XLSX %s, its stores %+v, its missing %+v", want, said, stores, missing)
	}
	counts, pageRows := pageCounts(t, files["html"])
	if inCSV != c || fmt.Sprint(counts) != fmt.Sprint(want) || pageRows != targets+1 || len(back.Stores) != targets {
		t.Fatalf("JSON %+v of %d rows, CSV %+v, HTML %v of %d rows", c, len(back.Stores), inCSV, counts, pageRows-1)
	}
}

// workbookCounts reads the counts of the summary, and counts the rows of the
// other sheets by outcome.
func workbookCounts(t tb, b book) (said string, stores, missing protocol.Counts) {
	t.Helper()
	about := []string{"succeeded", "failed", "timed out", "offline", "cancelled", "targets"}
	numbers := make([]string, len(about))
	for i, line := range about {
		numbers[i] = b.summary(line)
	}
	for sheet, counts := range map[int]*protocol.Counts{1: &stores, 2: &missing} {
		for i := range b.sheets[sheet][1:] {
			for j, outcome := range task.Outcomes() {
				if strings.HasSuffix(b.under(sheet, "Outcome", i+1).show(), " "+about[j]+`"`) {
					counts.Add(outcome)
				}
			}
		}
	}
	return "[" + strings.Join(numbers, " ") + "]", stores, missing
}

// TestALargePageStaysSmall, and is folded into pages: every store is on it, and those that did not succeed have
// their evidence, up to a bound.
func TestALargePageStaysSmall(t *testing.T) {
	t.Parallel()
	const targets = 30_500
	r := setup(t)
	wide := make([]json.RawMessage, 9)
	for i := range wide {
		wide[i] = json.RawMessage(`"2026-09-16"`)
	}
	list := make([]protocol.StoreRow, targets)
	for i := range list {
		list[i] = row(fmt.Sprintf("S%06d", i), "上海<虹桥>店", task.OutcomeSucceeded, "")
		if i%2 == 1 {
			list[i].Outcome, list[i].Reason, list[i].Late = task.OutcomeTimedOut, task.ReasonStartedThenSilent, true
			twice(&list[i])
		}
		list[i].Columns = wide
	}
	rows := rowsOf(t, list...)
	h := head(targets)
	h.Columns = slices.Repeat(h.Columns[:1], len(wide))
	page := write(t, r, "html", build(t, r, h, rows, nil), rows)
	_, table, _ := strings.Cut(page, `<div id="stores">`)
	table, _, ended := strings.Cut(table, "</noscript>\n")
	full, short := strings.Count(table, `<td class=n>1/2<td>`), strings.Count(table, `<td colspan=13>`)
	if full != 10_000 || short != targets-full || strings.Count(table, "<td>上海&lt;虹桥&gt;店<td>超时 <span lang=en>timed out</span> (补传 <span lang=en>late</span>)<td>started_then_silent<td><td>2026-09-16<td>") != 5_250 {
		t.Errorf("%d rows with evidence, %d without", full, short)
	}
	parts := regexp.MustCompile(`<details>\n<summary>([\d,]+)–([\d,]+): <bdi>(S\d+)</bdi>`).FindAllStringSubmatch(table, -1)
	if len(parts) != 31 || fmt.Sprint(parts[1][1:]) != "[1,001 2,000 S001000]" || fmt.Sprint(parts[30][1:]) != "[30,001 30,500 S030000]" ||
		strings.Count(table, "</tbody>\n</table>\n</details>\n") != 31 || strings.Count(table, "<thead>") != 31 || !ended || !strings.HasSuffix(table, "</details>\n</div>\n</div>\n") {
		t.Errorf("%d pages: %q", len(parts), parts)
	}
	if !strings.Contains(page, "10,000 at most, have their evidence here") {
		t.Error("the page does not say what it leaves out")
	}
	const most, many = 40_000_000, 100_000
	last := strings.LastIndex(table, "</tbody>") - strings.LastIndex(table, "<tr><td>") // a short row
	if bytes := len(page) + last*(many-targets); bytes > most {
		t.Errorf("a page of %d stores would have %d bytes", many, bytes)
	}
}

// twice gives a row an attempt that its lease ended, and another.
func twice(row *protocol.StoreRow) {
	row.Attempt, row.Tries = 2, []protocol.Try{
		{Attempt: 1, TerminalID: "pos-1", GrantedAt: at(6), EndedAt: at(30), Code: protocol.CodeLeaseExpired, Message: "silent for longer than its lease"},
		{Attempt: 2, TerminalID: "pos-1", GrantedAt: at(31), EndedAt: at(60), Answer: protocol.AnswerFailed, Code: protocol.CodeExecution, Message: "no such file", SHA256: strings.Repeat("cd", 32), Bytes: 90},
	}
}

// endless is n rows made as they are asked for.
func endless(t testing.TB, n int) report.Rows {
	sample, err := protocol.Encode(valued(row("S000000", "上海虹桥店", task.OutcomeSucceeded, ""), "12345", `"ok"`))
	if err != nil {
		t.Fatal(err)
	}
	place := bytes.Index(sample, []byte("S000000"))
	return func(yield func(json.RawMessage, error) bool) {
		for i := range n {
			raw := bytes.Clone(sample)
			copy(raw[place:], fmt.Sprintf("S%06d", i))
			if !yield(raw, nil) {
				return
			}
		}
	}
}

// BenchmarkHundredThousandStores shows the time of each step and the memory
// that is alive at the end of it.
func BenchmarkHundredThousandStores(b *testing.B) {
	const targets = 100_000
	r := setup(b)
	rows := endless(b, targets)
	h, err := r.Build(head(targets), rows, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			for _, err := range rows {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if err := r.Check(h, rows); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, format := range r.Formats() {
		b.Run(format.Ext, func(b *testing.B) {
			for b.Loop() {
				var size counter
				if err := r.Write(&size, format.Ext, h, rows); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(size)/(1<<20), "MiB")
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapSys)/(1<<20), "heap-MiB")
		})
	}
}

// BenchmarkWorkbookByTheLibrary streams the cells of the stores' sheet through the
// library, against which the workbook is measured. All stores succeeded, so that the
// sheet of the others is empty.
func BenchmarkWorkbookByTheLibrary(b *testing.B) {
	const targets = 100_000
	rows := endless(b, targets)
	for b.Loop() {
		file := excelize.NewFile()
		stream, err := file.NewStreamWriter("Sheet1")
		if err != nil {
			b.Fatal(err)
		}
		style, err := file.NewStyle(&excelize.Style{NumFmt: 22})
		if err != nil {
			b.Fatal(err)
		}
		in, line := report.RowReader{}, 1
		for raw, err := range rows {
			if err != nil {
				b.Fatal(err)
			}
			row, _, _ := in.Read(raw)
			if err := stream.SetRow("A"+strconv.Itoa(line), plainCells(row, style)); err != nil {
				b.Fatal(err)
			}
			line++
		}
		if err := stream.Flush(); err != nil {
			b.Fatal(err)
		}
		var size counter
		if err := file.Write(&size); err != nil {
			b.Fatal(err)
		}
		if err := file.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size)/(1<<20), "MiB")
	}
}

// plainCells are the cells of a store's row for the library.
func plainCells(row *protocol.StoreRow, style int) []any {
	e := &row.Evidence
	cells := []any{row.StoreID, row.Name, string(row.Outcome) + " 成功", nil, nil, nil, nil, nil, 12345, "ok", string(row.AtBarrier) + " 成功", "否 no",
		"是 yes", e.Attempts, e.AttemptsOf}
	for _, at := range []protocol.Time{e.LastSeenAt, e.ClaimedAt, e.GrantedAt, e.StartedAt, e.LastSignAt, e.ReadyAt, row.FinishedAt} {
		if at.IsZero() {
			cells = append(cells, nil)
			continue
		}
		cells = append(cells, excelize.Cell{StyleID: style, Value: at.Time})
	}
	return append(cells, *e.ClockSkewMs, row.TerminalID, row.TaskID, string(row.Status), row.Attempt, row.Bytes, row.SHA256, "region=east")
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }
