package checker_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// typed adds a run whose columns have types and totals.
func typed(w *world) {
	w.run(50_000, "R4", "", 60_000, "A", "B", "D")
	w.ask(49_995, protocol.VerbRun, `{"job":"probe"}`, history.OutcomeUnknown, nil)
	w.runOf("R4").Columns = []protocol.Column{
		{Name: "lines", Pointer: "/lines", Title: "Lines", TitleZh: "行数", Type: protocol.ColumnInteger,
			Aggregate: []protocol.Aggregate{"sum", "mean", "max", "p50", "distinct", "top", "histogram"}},
		{Name: "day", Pointer: "/day", Title: "Day", TitleZh: "日期", Type: protocol.ColumnDate, Aggregate: []protocol.Aggregate{"max", "count"}},
		{Name: "at", Pointer: "/at", Title: "At", TitleZh: "时间", Type: protocol.ColumnTime, Aggregate: []protocol.Aggregate{"min"}},
		{Name: "ok", Pointer: "/ok", Title: "OK", TitleZh: "正常", Type: protocol.ColumnBool, Aggregate: []protocol.Aggregate{"count"}},
	}
	w.totals = map[string][]protocol.Total{"R4": {
		{Column: "lines", Stores: 2, Of: 3, WrongTypeIDs: []string{}, Sum: raw("1234"), Mean: raw("617"), Max: raw("1200"), P50: raw("34"), Distinct: 2,
			Largest: []protocol.StoreValue{{StoreID: "A", Value: raw("1200")}, {StoreID: "B", Value: raw("34")}}, Histogram: []protocol.Bin{{From: raw("0"), To: raw("1000"), Stores: 1}, {From: raw("1000"), To: raw("2000"), Stores: 1}}},
		{Column: "day", Stores: 2, Of: 3, WrongTypeIDs: []string{}, Max: raw(`"2026-09-17"`),
			Values: []protocol.ValueCount{{Value: raw(`"2026-09-16"`), Stores: 1}, {Value: raw(`"2026-09-17"`), Stores: 1}}},
		{Column: "at", Stores: 2, Of: 3, WrongTypeIDs: []string{}, Min: raw(`"2026-09-17T08:00:00.000+08:00"`)},
		{Column: "ok", Stores: 1, Of: 3, WrongType: 1, WrongTypeIDs: []string{"B"}, Values: []protocol.ValueCount{{Value: raw("true"), Stores: 1}}},
	}}
	w.grant(51_000, "R4-A")
	w.answer(52_000, "R4-A", `{"lines":1200,"day":"2026-09-16","at":"2026-09-17T00:00:00.000Z","ok":true}`)
	w.grant(53_000, "R4-B")
	w.answer(54_000, "R4-B", `{"lines":34,"day":"2026-09-17","at":"2026-09-17T08:30:00.500+08:00","ok":"yes"}`)
	w.grant(55_000, "R4-D")
	w.answer(56_000, "R4-D", `{}`)
	w.judge(56_010, "R4", 1, protocol.WhyAllSettled, map[string]string{"A": "succeeded", "B": "succeeded", "D": "succeeded"})
	w.runOf("R4").EndedAt = t0 + 56_020
}

// days is a date or a wall clock of headquarters as a spreadsheet's number.
func days(layout, text string) float64 {
	at, err := time.ParseInLocation(layout, text, time.FixedZone("Asia/Shanghai", 8*3600))
	if err != nil {
		panic(err)
	}
	at = at.In(time.FixedZone("Asia/Shanghai", 8*3600))
	return float64(at.UnixMilli()+8*3600*1000-time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC).UnixMilli()) / (24 * 3600 * 1000)
}

// cell is a value in a workbook.
func cell(of protocol.ColumnType, value json.RawMessage) any {
	switch text := said(value); {
	case text == "":
		return nil
	case of == protocol.ColumnDate:
		return days(time.DateOnly, text)
	case of == protocol.ColumnTime:
		return days(time.RFC3339, text)
	case of == protocol.ColumnBool && value[0] != '"':
		return text == "true"
	case of == protocol.ColumnInteger:
		return number(value)
	default:
		return text
	}
}

func number(digits json.RawMessage) int {
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		panic(err)
	}
	return n
}

var factWords = []struct {
	about string
	value func(*protocol.Total) json.RawMessage
}{
	{"sum", func(t *protocol.Total) json.RawMessage { return t.Sum }}, {"mean", func(t *protocol.Total) json.RawMessage { return t.Mean }},
	{"least", func(t *protocol.Total) json.RawMessage { return t.Min }}, {"median", func(t *protocol.Total) json.RawMessage { return t.P50 }},
	{"most", func(t *protocol.Total) json.RawMessage { return t.Max }},
}

// totalsOf is the workbook's sheet.
func totalsOf(r protocol.Report) [][]any {
	lines := [][]any{{"列\nColumn", "项目\nItem", "值\nValue", "小于\nLess than", "单位\nUnit", "门店编号\nStore", "门店数\nStores", "有值的门店\nStores with a value", "目标合计\nTargets"}}
	for i, t := range r.Totals {
		c := r.Columns[i]
		add := func(about string, value, upTo, store, stores any) {
			lines = append(lines, []any{c.TitleZh + " " + c.Title, "数 " + about, value, upTo, "", store, stores, t.Stores, t.Of})
		}
		add("with a value", nil, nil, nil, t.Stores)
		for _, f := range factWords {
			if value := f.value(&t); value != nil {
				add(f.about, cell(c.Type, value), nil, nil, nil)
			}
		}
		if t.Distinct > 0 {
			add("different values", t.Distinct, nil, nil, nil)
		}
		for _, v := range t.Values {
			add("stores by value", cell(c.Type, v.Value), nil, nil, v.Stores)
		}
		for _, v := range t.Largest {
			add("stores with the most", cell(c.Type, v.Value), nil, v.StoreID, nil)
		}
		for _, s := range t.Histogram {
			add("distribution", number(s.From), number(s.To), nil, s.Stores)
		}
		if t.WrongType > 0 {
			add("of another type", nil, nil, nil, t.WrongType)
		}
		for _, id := range t.WrongTypeIDs {
			add("store with another type", nil, nil, id, nil)
		}
	}
	return lines
}

func bilingual(text string) string {
	return `<span lang="zh">` + text + `</span> <span lang="en">` + text + `</span>`
}

// cardsOf are the page's cards.
func cardsOf(r protocol.Report) string {
	if len(r.Totals) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<ul class=\"totals\">\n")
	for i, t := range r.Totals {
		c := r.Columns[i]
		shown := func(value json.RawMessage) string {
			text := said(value)
			switch {
			case c.Type == protocol.ColumnTime:
				text = strings.Replace(text, "T", " ", 1)
			case c.Type == protocol.ColumnBool:
				text = map[string]string{"true": "yes", "false": "no"}[text]
			case len(text) == 4: // in groups
				text = text[:1] + "," + text[1:]
			}
			return bilingual(text)
		}
		covered := bilingual(fmt.Sprintf("%d of %d stores", t.Stores, t.Of))
		fmt.Fprintf(&b, "<li>\n<h3><bdi>%s</bdi></h3>\n<p class=\"soft\">%s</p>\n", bilingual(c.Title), covered)
		if t.WrongType > 0 {
			fmt.Fprintf(&b, "<details><summary>%s</summary><p><bdi>%s</bdi></p></details>\n", bilingual(fmt.Sprintf("%d with a value of another type, in no total", t.WrongType)), strings.Join(t.WrongTypeIDs, ", "))
		}
		b.WriteString("<dl>\n")
		for _, f := range factWords {
			if value := f.value(&t); value != nil {
				fmt.Fprintf(&b, "<dt>%s</dt><dd>%s <small class=\"soft\">%s</small></dd>\n", bilingual(f.about), shown(value), covered)
			}
		}
		if t.Distinct > 0 {
			fmt.Fprintf(&b, "<dt>%s</dt><dd>%s <small class=\"soft\">%s</small></dd>\n", bilingual("different values"), bilingual(fmt.Sprint(t.Distinct)), covered)
		}
		b.WriteString("</dl>\n")
		table := func(about string, lines ...string) {
			if len(lines) > 0 {
				fmt.Fprintf(&b, "<table>\n<thead><tr><th scope=\"col\">%s</th></tr></thead>\n<tbody>\n%s</tbody>\n</table>\n", bilingual(about), strings.Join(lines, ""))
			}
		}
		line := func(about, value string) string {
			return "<tr><th scope=\"row\"><bdi>" + about + "</bdi></th><td class=\"n\">" + value + "</td></tr>\n"
		}
		var values, largest, spans []string
		for _, v := range t.Values {
			values = append(values, line(shown(v.Value), bilingual(fmt.Sprint(v.Stores))))
		}
		for _, v := range t.Largest {
			largest = append(largest, line(bilingual(v.StoreID), shown(v.Value)))
		}
		for _, s := range t.Histogram {
			spans = append(spans, line(bilingual(string(s.From)+" ≤ x &lt; "+string(s.To)), bilingual(fmt.Sprint(s.Stores))))
		}
		table("stores by value", values...)
		table("stores with the most", largest...)
		table("distribution", spans...)
		b.WriteString("</li>\n")
	}
	return b.String() + "</ul>\n</section>\n"
}

const ofR4 = "I5: run R4 file 20260917-1800_probe_R4_r1"

// totalPlants are about what the job's columns amount to, and values that are no text.
func totalPlants() []plant {
	total := func(change func(*protocol.Total)) func(*world) {
		return func(w *world) {
			typed(w)
			list := slices.Clone(w.totals["R4"])
			change(&list[0])
			w.totals["R4"] = list
		}
	}
	everywhere := func(said string) string {
		lines := make([]string, 0, 3)
		for _, ending := range []string{".html", ".json", ".xlsx"} {
			lines = append(lines, strings.ReplaceAll(said, "FILE", ofR4+ending))
		}
		return strings.Join(lines, "\n")
	}
	file := func(ending, cellOrOld string, with any) func(*world) {
		return func(w *world) {
			name := "20260917-1800_probe_R4_r1" + ending
			if place, is := strings.CutPrefix(cellOrOld, "!"); is {
				sheet, at, _ := strings.Cut(place, "!")
				w.recell(name, sheet, at, with)
			} else {
				w.rewrite(name, cellOrOld, fmt.Sprint(with))
			}
			w.relook()
		}
	}
	return []plant{
		{name: "a sum in every file", rule: checker.Reports, before: total(func(t *protocol.Total) { t.Sum = raw("1235") }),
			want: everywhere("FILE of column lines it says sum: 1235, and the rows do not amount to that\nFILE of column lines it lacks sum: 1234")},
		{name: "a coverage in every file", rule: checker.Reports, before: total(func(t *protocol.Total) { t.Stores = 3 }),
			want: everywhere("FILE of column lines it says stores with a value: 3 of 3, and the rows do not amount to that\nFILE of column lines it lacks stores with a value: 2 of 3")},
		{name: "a histogram in every file", rule: checker.Reports, before: total(func(t *protocol.Total) { t.Histogram = []protocol.Bin{{From: raw("0"), To: raw("1000"), Stores: 2}} }),
			want: everywhere("FILE of column lines its histogram has 2 stores from 0 to 1000, the rows have 1\nFILE of column lines its histogram has 1 of 2 values")},
		{name: "JSON has another mean", rule: checker.Reports, before: typed, after: file(".json", `"mean":617`, `"mean":618`),
			want: ofR4 + ".json of column lines it says mean: 618, and the rows do not amount to that\n" + ofR4 + ".json of column lines it lacks mean: 617"},
		{name: "JSON lacks a total", rule: checker.Reports, before: func(w *world) { typed(w); w.totals["R4"] = w.totals["R4"][:3] },
			want: ofR4 + ".html it cannot be read: it has the totals of 3 columns, 4 have a type\n" + ofR4 + ".json it cannot be read: it has 3 totals, 4 columns have a type\n" +
				ofR4 + ".xlsx it cannot be read: its totals are of 3 columns, 4 have a type"},
		{name: "HTML has another largest store", rule: checker.Reports, before: typed, after: file(".html", bilingual("A"), bilingual("D")),
			want: ofR4 + ".html of column lines it says most at D: 1200, and the rows do not amount to that\n" + ofR4 + ".html of column lines it lacks most at A: 1200"},
		{name: "HTML rounds a mean to another", rule: checker.Reports, before: typed, after: file(".html", bilingual("617"), bilingual("617.01")),
			want: ofR4 + ".html of column lines it says mean: 617.01, and the rows do not amount to that\n" + ofR4 + ".html of column lines it lacks mean: 617"},
		{name: "HTML shows a part as the whole", rule: checker.Reports, before: typed,
			after: file(".html", bilingual("1,234")+` <small class="soft">`+bilingual("2 of 3 stores"), bilingual("1,234")+` <small class="soft">`+bilingual("3 of 3 stores")),
			want:  ofR4 + `.html it cannot be read: of column lines it says "sum" of 3 of 3 stores`},
		{name: "a workbook has another median", rule: checker.Reports, before: typed, after: file(".xlsx", "!合计 totals!C5", 35),
			want: ofR4 + ".xlsx of column lines it says p50: 35, and the rows do not amount to that\n" + ofR4 + ".xlsx of column lines it lacks p50: 34"},
		{name: "a workbook has another latest day", rule: checker.Reports, before: typed, after: file(".xlsx", "!合计 totals!C13", 46283),
			want: ofR4 + ".xlsx of column day it says max: 2026-09-18, and the rows do not amount to that\n" + ofR4 + ".xlsx of column day it lacks max: 2026-09-17"},
		{name: "a workbook has a moment in another zone", rule: checker.Reports, before: typed, after: file(".xlsx", "!门店 stores!G2", 46282.0),
			want: ofR4 + `.xlsx it has store A with at = "46282", the store has "46282.333333333336"`},
		{name: "a workbook has a day as text", rule: checker.Reports, before: typed, after: file(".xlsx", "!门店 stores!F2", "2026-09-16"),
			want: ofR4 + `.xlsx it has store A with day = "2026-09-16", the store has "46281"`},
		{name: "a workbook has a truth as text", rule: checker.Reports, before: typed, after: file(".xlsx", "!门店 stores!H2", "true"),
			want: ofR4 + `.xlsx it has store A with ok = "true", the store has "1"`},
	}
}
