package report_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/report/workbook"
	"muster/internal/protocol"
	"muster/internal/task"
)

// ofType is the cell of one value of a job's column of that type.
func ofType(t tb, of protocol.ColumnType, raw string) xlsxCell {
	t.Helper()
	h, only := head(1), valued(row("007", "店", task.OutcomeSucceeded, ""), raw, "null")
	h.Columns[0].Type = of
	var file strings.Builder
	if err := workbook.Write(&file, h, rowsOf(t, only)); err != nil {
		t.Fatal(err)
	}
	return readXLSX(t, file.String()).under(storesSheet, "lines", 1)
}

// TestAValueIsACellOfTheTypeOfItsColumn, and text when it is none of that type.
func TestAValueIsACellOfTheTypeOfItsColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of        protocol.ColumnType
		raw, want string
	}{
		{"", "5", "5"}, {"", `"5"`, `"5"`}, {"", "true", `"true"`}, {"", `"2026-09-17"`, `"2026-09-17"`}, {"", `{"a":[1]}`, `"{\"a\":[1]}"`},
		{protocol.ColumnText, `"007"`, `"007"`}, {protocol.ColumnText, `"2026-09-17"`, `"2026-09-17"`}, {protocol.ColumnText, "1.0", `"1.0"`}, {protocol.ColumnText, `""`, `""`},
		{protocol.ColumnInteger, "-5", "-5"}, {protocol.ColumnInteger, "1234567890123456", `"1234567890123456"`}, {protocol.ColumnInteger, `"34"`, `"34"`}, {protocol.ColumnInteger, "true", `"true"`},
		{protocol.ColumnNumber, "-2.50", "-2.50"}, {protocol.ColumnBytes, "4096", "4096"}, {protocol.ColumnDuration, "1.5", "1.5"},
		{protocol.ColumnBool, "true", "b1"}, {protocol.ColumnBool, "false", "b0"}, {protocol.ColumnBool, `"true"`, `"true"`}, {protocol.ColumnBool, "1", `"1"`},
		{protocol.ColumnDate, `"2026-09-17"`, "46282"}, {protocol.ColumnDate, `"1900-03-01"`, "61"}, {protocol.ColumnDate, `"1900-02-28"`, `"1900-02-28"`},
		{protocol.ColumnDate, `"2026-02-30"`, `"2026-02-30"`}, {protocol.ColumnDate, `"2026-9-17"`, `"2026-9-17"`}, {protocol.ColumnDate, "46282", `"46282"`},
		{protocol.ColumnTime, `"2026-09-17T00:00:00Z"`, "46282.333333333336"}, {protocol.ColumnTime, `"2026-09-16T10:00:00.000-06:00"`, "46282"},
		{protocol.ColumnTime, `"2026-09-17T00:00:00.0001Z"`, `"2026-09-17T00:00:00.0001Z"`}, {protocol.ColumnTime, `"2026-09-17"`, `"2026-09-17"`},
		{protocol.ColumnTime, `"9999-12-31T23:00:00Z"`, `"9999-12-31T23:00:00Z"`}, {protocol.ColumnDate, "null", ""}, {protocol.ColumnBool, "null", ""},
	} {
		if got := ofType(t, c.of, c.raw).show(); got != c.want {
			t.Errorf("%s in a column of type %q became %s; want %s", c.raw, c.of, got, c.want)
		}
	}
}

// valueOf is a cell read back as JSON by the type of its column; a moment in headquarters' zone.
func valueOf(t tb, c xlsxCell, of protocol.ColumnType) string {
	t.Helper()
	switch {
	case c.Ref == "":
		return "null"
	case c.Type == "b":
		return strconv.FormatBool(c.Number == "1")
	case c.Type == "inlineStr":
		return unescaped(*c.Text)
	}
	days, err := strconv.ParseFloat(c.Number, 64)
	if err != nil {
		t.Fatal(err)
	}
	if of != protocol.ColumnDate && of != protocol.ColumnTime {
		return strconv.FormatFloat(days, 'e', 14, 64) // the 15 digits that spreadsheets keep
	}
	const perDay = 24 * 60 * 60 * 1000
	at := time.Date(1899, 12, 30, 0, 0, 0, 0, zone).Add(time.Duration(days*perDay+0.5) * time.Millisecond)
	if of == protocol.ColumnDate {
		return at.Format(time.DateOnly)
	}
	return at.Format("2006-01-02T15:04:05.000Z07:00")
}

func sameNumber(got, want string) bool {
	a, ok := new(big.Rat).SetString(got)
	b, ok2 := new(big.Rat).SetString(want)
	return ok && ok2 && a.Cmp(b) == 0
}

// TestARoundTripGivesEveryValueBack: whatever the type of its column, a value reads back as it was,
// a number at least as the same number, and a moment as the same moment.
func TestARoundTripGivesEveryValueBack(t *testing.T) {
	t.Parallel()
	day := rapid.Map(rapid.Int64Range(-3e9, 2.5e11), func(s int64) string { return time.Unix(s, 0).UTC().Format(time.DateOnly) })
	moment := rapid.Map(rapid.Int64Range(-2e12, 2.5e14), func(ms int64) string {
		layout := []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000Z07:00", "2006-01-02T15:04:05.000000Z07:00"}[max(ms, -ms)%3]
		return time.UnixMilli(ms).Add(time.Duration(ms%1000) * time.Microsecond).In(time.FixedZone("", int(ms%50400)/60*60)).Format(layout)
	})
	text := rapid.OneOf(day, moment, rapid.SampledFrom([]string{"007", "1E5", "123456789012345678", "TRUE", "=1+1", "46282", ""}), rapid.String())
	number := rapid.OneOf(rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
		rapid.Map(rapid.Float64(), func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }))
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SampledFrom(append(protocol.ColumnTypes(), "")).Draw(t, "type")
		want := rapid.SampledFrom([]string{"null", "true", "false", "text", "number"}).Draw(t, "kind")
		raw := want
		switch want {
		case "text":
			want = text.Draw(t, "text")
			quoted, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			raw, want = string(quoted), workbook.Shown(want)
		case "number":
			want = number.Draw(t, "number")
			raw = want
		}
		got := valueOf(t, ofType(t, of, raw), of)
		if got == want || sameNumber(got, want) {
			return
		}
		was, err := time.Parse(time.RFC3339, want)
		is, err2 := time.Parse(time.RFC3339, got)
		if err != nil || err2 != nil || of != protocol.ColumnTime || !was.Equal(is) {
			t.Fatalf("%s in a column of type %q reads back as %s", raw, of, got)
		}
	})
}

// TestWhatMovedHasASheet: who answered after the barrier, in this revision or before, and
// what this one changed.
func TestWhatMovedHasASheet(t *testing.T) {
	t.Parallel()
	r := setup(t)
	before, after := tenStores(), tenStores()
	after[4] = row("SH_0001", "=1+1", task.OutcomeSucceeded, "")
	after[4].AtBarrier, after[4].Late = task.OutcomeOffline, true
	before[2].AtBarrier, before[2].Late = task.OutcomeTimedOut, true // of revision 2
	after[2] = before[2]
	h := head(10)
	h.Revision, h.RevisionWhy = 3, protocol.WhyLateResults
	rows := rowsOf(t, after...)
	h = build(t, r, h, rows, rowsOf(t, before...))
	b := readXLSX(t, write(t, r, "xlsx", h, rows))
	var got []string
	for i := range b.sheets[revisionsSheet][1:] {
		var cells []string
		for _, column := range []string{"Store", "At the barrier", "In the revision before", "Outcome", "Late", "Changed by this revision"} {
			cells = append(cells, b.under(revisionsSheet, column, i+1).show())
		}
		got = append(got, strings.Join(cells, " "))
	}
	want := `"1E5" "超时 timed out"  "成功 succeeded" "是 yes" "否 no"` + "\n" + `"SH_0001" "离线 offline" "离线 offline" "成功 succeeded" "是 yes" "是 yes"`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if dimension := `<dimension ref="A1:K3">`; !strings.Contains(b.parts[sheetPart(revisionsSheet+1)], dimension) {
		t.Errorf("the sheet has no %s", dimension)
	}
}

// TestRegionsSumToTheTargets, the stores without one too, in a row of their own.
func TestRegionsSumToTheTargets(t *testing.T) {
	t.Parallel()
	r := setup(t)
	list := tenStores()
	for i := range list {
		list[i].Labels = map[string]string{"region": []string{"east", "west", ""}[i%3]}
	}
	list[5].Labels = map[string]string{"format": "mall"}
	rows := rowsOf(t, list...)
	b := readXLSX(t, write(t, r, "xlsx", build(t, r, head(10), rows, nil), rows))
	var got []string
	for _, row := range b.sheets[regionsSheet][1:] {
		line := make([]string, 0, len(row.Cells))
		for _, c := range row.Cells {
			line = append(line, c.show())
		}
		got = append(got, strings.Join(line, " "))
	}
	want := `"east" 3 0 1 0 0 4 0.75` + "\n" + `"west" 1 1 0 1 0 3 0.333333` + "\n" + `"未标地区 no region" 2 0 0 0 1 3 0.666667`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestColoursRepeatWhatStandsThere: each outcome and verdict has one, on every sheet that says it.
func TestColoursRepeatWhatStandsThere(t *testing.T) {
	t.Parallel()
	r := setup(t)
	list := tenStores()
	list[0].Late, list[0].AtBarrier = true, task.OutcomeOffline
	rows := rowsOf(t, list...)
	b := readXLSX(t, write(t, r, "xlsx", build(t, r, head(10), rows, nil), rows))
	for sheet, place := range map[int]string{summarySheet: "A2:A", storesSheet: "C2:C11", missingSheet: "C2:C5", attemptsSheet: "D2:D10", revisionsSheet: "F2:F2"} {
		part := b.parts[sheetPart(sheet+1)]
		_, rules, ok := strings.Cut(part, `<conditionalFormatting sqref="`+place)
		if !ok {
			t.Errorf("sheet %d has no colours at %s", sheet, place)
			continue
		}
		for _, text := range []string{"成功 succeeded", "失败 failed", "超时 timed out", "离线 offline", "已取消 cancelled", "完整 Complete", "不完整 Partial", "低于要求 Below quorum"} {
			if !strings.Contains(rules, `type="cellIs"`) || !strings.Contains(rules, `<formula>&#34;`+text+`&#34;</formula>`) && !strings.Contains(rules, `<formula>"`+text+`"</formula>`) {
				t.Errorf("sheet %d has no colour for %q", sheet, text)
			}
		}
	}
	if n := strings.Count(b.parts["xl/styles.xml"], "<dxf>"); n != 8 {
		t.Errorf("the workbook has %d colours", n)
	}
}

// TestSheetsHaveShortNamesFiltersAndAHeaderThatStays.
func TestSheetsHaveShortNamesFiltersAndAHeaderThatStays(t *testing.T) {
	t.Parallel()
	r, h, rows := typed(t)
	b := readXLSX(t, write(t, r, "xlsx", h, rows))
	var names []string
	for _, found := range regexp.MustCompile(`<sheet name="([^"]*)"`).FindAllStringSubmatch(b.parts["xl/workbook.xml"], -1) {
		names = append(names, found[1])
		if units := len(utf16.Encode([]rune(found[1]))); units > 31 || strings.ContainsAny(found[1], `:\/?*[]`) {
			t.Errorf("no sheet can be called %q", found[1])
		}
	}
	if want := "[汇总 summary 门店 stores 未成功 missing 各次执行 attempts 补传与版本 revisions 地区 regions 合计 totals 元数据 metadata]"; fmt.Sprint(names) != want {
		t.Errorf("the sheets are %v; want %s", names, want)
	}
	for i := range names {
		part := b.parts[sheetPart(i+1)]
		filtered := i > 0 && i < len(names)-1
		if !strings.Contains(part, `state="frozen"`) || !strings.Contains(part, `<col `) || strings.Contains(part, "<autoFilter ") != filtered {
			t.Errorf("sheet %s: its header stays %t, widths %t, filter %t", names[i], strings.Contains(part, `state="frozen"`), strings.Contains(part, `<col `), strings.Contains(part, "<autoFilter "))
		}
	}
}
