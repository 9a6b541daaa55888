package checker_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// publish writes the files of every revision from the outcomes, and two looks
// at each.
func (w *world) publish() {
	w.t.Helper()
	for i := range w.e.Store.Outcomes {
		w.row(&w.e.Store.Outcomes[i])
	}
	for i := range w.e.Store.Revisions {
		if rev := &w.e.Store.Revisions[i]; rev.RunID != w.passed || rev.Revision > 1 {
			w.files(rev)
		}
	}
}

// looks notes each report file as it is, at the moment.
func (w *world) looks(at int64) {
	for _, rev := range w.e.Store.Revisions {
		for _, f := range rev.Files {
			w.say(at, watch, history.Line{Act: history.ActLooked, Name: "2026/09/" + f.Name, SHA256: f.SHA256, Bytes: f.Bytes})
		}
	}
}

// row writes an outcome as the row of the report.
func (w *world) row(o *checker.Outcome) {
	t := w.task(cmp.Or(o.Row, o.RunID+"-"+o.StoreID)) // it may be of a retry
	row := protocol.StoreRow{StoreID: o.StoreID, Name: "店 " + o.StoreID, Outcome: o.Outcome, Reason: o.Reason,
		AtBarrier: w.outcome(o.RunID, o.StoreID, 1).Outcome, Late: o.Revision > 1, TaskID: t.TaskID, Status: t.Status, Attempt: t.Attempt}
	if t.Attempt > 0 {
		a := w.attempt(t.TaskID, t.Attempt)
		row.Evidence.GrantedAt, row.Evidence.StartedAt = at(a.GrantedAt), at(a.StartedAt)
		row.FinishedAt = at(cmp.Or(t.SettledAt, a.ReceivedAt))
	}
	if w.tried {
		for n := range t.Attempt {
			a := w.attempt(t.TaskID, n+1)
			row.Tries = append(row.Tries, protocol.Try{Attempt: a.Attempt, TerminalID: a.TerminalID, GrantedAt: at(a.GrantedAt), StartedAt: at(a.StartedAt), EndedAt: at(a.EndedAt),
				Answer: a.Answer, Code: a.Code, SHA256: a.SHA256})
		}
	}
	columns := w.runOf(o.RunID).Columns
	row.Columns = slices.Repeat([]json.RawMessage{json.RawMessage("null")}, len(columns))
	if o.Outcome == task.OutcomeSucceeded {
		a := w.attempt(t.TaskID, t.Attempt)
		row.SHA256, row.Bytes = a.SHA256, int64(len(*a.Result))
		for i, c := range columns {
			row.Columns[i] = json.RawMessage(checker.Value([]byte(*a.Result), c.Pointer))
		}
	}
	o.Row = w.text(row)
}

// at writes a moment of the database as a report does.
func at(ms int64) protocol.Time {
	if ms == 0 {
		return protocol.Time{}
	}
	return protocol.At(time.UnixMilli(ms))
}

// rerow changes a row in the database and in the JSON file of its revision.
func (w *world) rerow(run, store string, revision int, old, with string) {
	w.t.Helper()
	o := w.outcome(run, store, revision)
	was := o.Row
	o.Row = strings.Replace(was, old, with, 1)
	w.rewrite(fmt.Sprintf("20260917-1800_probe_%s_r%d.json", run, revision), was, o.Row)
	w.relook()
}

func (w *world) files(rev *checker.Revision) {
	w.t.Helper()
	run := w.runOf(rev.RunID)
	report := protocol.Report{ReportHead: protocol.ReportHead{Schema: protocol.ReportSchema, RunID: rev.RunID, Job: "probe", Input: json.RawMessage("{}"),
		Revision: rev.Revision, RevisionWhy: rev.Why, AsOf: protocol.At(time.UnixMilli(rev.AsOf)), Targets: run.Targets, Columns: run.Columns,
		TimeZone: "Asia/Shanghai", Totals: w.totals[rev.RunID]}}
	for _, target := range w.e.Store.Targets {
		if target.RunID != rev.RunID {
			continue
		}
		var row protocol.StoreRow
		for _, o := range w.e.Store.Outcomes {
			if o.RunID == rev.RunID && o.StoreID == target.StoreID && o.Revision <= rev.Revision {
				row = protocol.StoreRow{}
				if err := json.Unmarshal([]byte(o.Row), &row); err != nil {
					w.t.Fatal(err)
				}
			}
		}
		report.Counts.Add(row.Outcome)
		report.Stores = append(report.Stores, row)
	}
	report.Verdict = verdictOf(report.Counts, report.Targets)
	rev.Files = nil
	manifest := protocol.Manifest{Schema: protocol.ManifestSchema, RunID: rev.RunID, Revision: rev.Revision, Reason: rev.Why}
	base := fmt.Sprintf("20260917-1800_probe_%s_r%d", rev.RunID, rev.Revision)
	for _, f := range []struct{ ending, text string }{{".json", w.text(report)}, {".csv", csvOf(report)}, {".html", htmlOf(report)}, {".xlsx", w.xlsxOf(report)}} {
		manifest.Files = append(manifest.Files, w.file(rev, base+f.ending, f.text))
	}
	w.file(rev, base+"_manifest.json", w.text(manifest))
}

func verdictOf(c protocol.Counts, targets int) protocol.Verdict {
	if c.Succeeded == targets {
		return protocol.VerdictComplete
	}
	return protocol.VerdictPartial
}

func (w *world) file(rev *checker.Revision, name, text string) protocol.ManifestFile {
	w.e.Reports["2026/09/"+name] = []byte(text)
	file := protocol.ManifestFile{Name: name, Bytes: int64(len(text)), SHA256: sum(text)}
	rev.Files = append(rev.Files, file)
	return file
}

// rewrite changes a published file and everything that holds its hash, as a
// writer that says something else would.
func (w *world) rewrite(name, old, with string) {
	w.t.Helper()
	path := "2026/09/" + name
	text := strings.Replace(string(w.e.Reports[path]), old, with, 1)
	if text == string(w.e.Reports[path]) {
		w.t.Fatalf("%s has no %q", name, old)
	}
	w.overwrite(name, text)
}

// overwrite is rewrite with the whole content.
func (w *world) overwrite(name, text string) {
	w.t.Helper()
	path := "2026/09/" + name
	size, was := len(w.e.Reports[path]), sum(string(w.e.Reports[path]))
	w.e.Reports[path] = []byte(text)
	for i := range w.e.Store.Revisions {
		for j := range w.e.Store.Revisions[i].Files {
			if f := &w.e.Store.Revisions[i].Files[j]; f.Name == name {
				f.Bytes, f.SHA256 = int64(len(text)), sum(text)
			}
		}
	}
	if strings.HasSuffix(name, "_manifest.json") {
		return
	}
	base := name[:strings.LastIndex(name, ".")]
	w.rewrite(base+"_manifest.json", fmt.Sprintf(`"bytes":%d,"sha256":%q`, size, was),
		fmt.Sprintf(`"bytes":%d,"sha256":%q`, len(text), sum(text)))
}

func csvOf(r protocol.Report) string {
	var b strings.Builder
	b.WriteString("\ufeffstore_id,name,outcome,reason,outcome_at_barrier,attempts")
	for _, c := range r.Columns {
		b.WriteString(",job." + c.Name)
	}
	for _, row := range r.Stores {
		fmt.Fprintf(&b, "\r\n%s,%s,%s,%s,%s,", row.StoreID, row.Name, row.Outcome, row.Reason, row.AtBarrier)
		if len(row.Tries) > 0 {
			list, _ := json.Marshal(row.Tries) // as it was read
			b.WriteString(`"` + strings.ReplaceAll(string(list), `"`, `""`) + `"`)
		}
		for _, raw := range row.Columns {
			b.WriteString("," + strings.Replace(said(raw), "=", "'=", 1))
		}
	}
	return b.String() + "\r\n"
}

// said is a value as people read it.
func said(raw json.RawMessage) string {
	return strings.Trim(strings.TrimPrefix(string(raw), "null"), `"`)
}

// xlsxOf is a workbook with the sheets that are read.
func (w *world) xlsxOf(r protocol.Report) string {
	w.t.Helper()
	book := excelize.NewFile()
	names := map[task.Outcome]string{task.OutcomeSucceeded: "成功 succeeded", task.OutcomeFailed: "失败 failed", task.OutcomeTimedOut: "超时 timed out",
		task.OutcomeOffline: "离线 offline", task.OutcomeCancelled: "取消 cancelled", "": "目标合计 targets"}
	summary := [][]any{{"项目\nItem", "值\nValue"}, {"结论 verdict", "x"}}
	for i, n := range []int{r.Counts.Succeeded, r.Counts.Failed, r.Counts.TimedOut, r.Counts.Offline, r.Counts.Cancelled, r.Targets} {
		outcome := []task.Outcome{task.OutcomeSucceeded, task.OutcomeFailed, task.OutcomeTimedOut, task.OutcomeOffline, task.OutcomeCancelled, ""}[i]
		summary = append(summary, []any{names[outcome], n})
	}
	header := []any{"门店编号\nStore", "结果\nOutcome", "原因代码\nReason code", "错误详情\nError detail"}
	for _, c := range r.Columns {
		header = append(header, c.TitleZh+"\n"+c.Title)
	}
	stores := [][]any{append(header, "截止时结果\nAt the barrier")}
	missing := [][]any{{"门店编号\nStore", "结果\nOutcome", "原因代码\nReason code"}}
	tries := [][]any{{"门店编号\nStore", "第几次\nAttempt", "终端\nTerminal", "错误代码\nError code", "结果摘要\nResult SHA-256", "结果字节\nResult bytes"}}
	for _, row := range r.Stores {
		for _, t := range row.Tries {
			tries = append(tries, []any{row.StoreID, t.Attempt, t.TerminalID, string(t.Code), t.SHA256, t.Bytes})
		}
		if row.Tries == nil && row.Attempt > 0 {
			tries = append(tries, []any{row.StoreID, row.Attempt, row.TerminalID, "", row.SHA256, row.Bytes})
		}
		line := []any{row.StoreID, names[row.Outcome], string(row.Reason)}
		if row.Outcome != task.OutcomeSucceeded {
			missing = append(missing, line)
		}
		line = append(slices.Clone(line), "")
		for i, raw := range row.Columns {
			line = append(line, cell(r.Columns[i].Type, raw))
		}
		stores = append(stores, append(line, names[row.AtBarrier]))
	}
	sheets := map[string][][]any{"汇总 summary": summary, "门店 stores": stores, "未成功 missing": missing, "各次执行 attempts": tries}
	if len(r.Totals) > 0 {
		sheets["合计 totals"] = totalsOf(r)
	}
	for name, lines := range sheets {
		if _, err := book.NewSheet(name); err != nil {
			w.t.Fatal(err)
		}
		for i, line := range lines {
			if err := book.SetSheetRow(name, fmt.Sprintf("A%d", i+1), &line); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return w.saved(book)
}

func (w *world) saved(book *excelize.File) string {
	w.t.Helper()
	var b bytes.Buffer
	if err := errors.Join(book.Write(&b), book.Close()); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// recell changes one cell of a published workbook.
func (w *world) recell(name, sheet, cell string, value any) {
	w.t.Helper()
	book, err := excelize.OpenReader(bytes.NewReader(w.e.Reports["2026/09/"+name]))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := book.SetCellValue(sheet, cell, value); err != nil {
		w.t.Fatal(err)
	}
	w.overwrite(name, w.saved(book))
}

func htmlOf(r protocol.Report) string {
	var b strings.Builder
	b.WriteString("<table id=\"counts\">\n<thead></thead>\n<tbody>\n")
	for _, row := range []struct {
		name string
		n    int
	}{{"succeeded", r.Counts.Succeeded}, {"failed", r.Counts.Failed}, {"timed out", r.Counts.TimedOut}, {"offline", r.Counts.Offline},
		{"cancelled", r.Counts.Cancelled}, {"targets", r.Targets}} {
		fmt.Fprintf(&b, "<tr><th scope=\"row\">数 <span lang=\"en\">%s</span></th><td class=\"n\"><data value=\"%d\">%d</data></td><td class=\"n\">-</td></tr>\n", row.name, row.n, row.n)
	}
	b.WriteString("</tbody>\n</table>\n" + cardsOf(r) + "<table id=\"stores\">\n<thead></thead>\n<tbody>\n")
	for _, row := range r.Stores {
		fmt.Fprintf(&b, "<tr><td><bdi>%s</bdi></td><td><bdi>%s</bdi></td><td>果 <span lang=\"en\">%s</span></td><td>%s</td></tr>\n",
			row.StoreID, row.Name, strings.ReplaceAll(string(row.Outcome), "_", " "), row.Reason)
	}
	b.WriteString("</tbody>\n</table>\n")
	return b.String()
}
