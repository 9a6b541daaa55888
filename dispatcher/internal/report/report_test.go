package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/report"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/schemas"
)

var update = flag.Bool("update", false, "write the golden files anew")

func setup(t testing.TB) *report.Reporter {
	t.Helper()
	doc, err := schemas.FS.ReadFile("report.v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.New(doc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	zone    = time.FixedZone("Asia/Shanghai", 8*3600)
	created = time.Date(2026, 9, 17, 18, 28, 0, 0, zone)
)

func at(seconds int) protocol.Time {
	return protocol.At(created.Add(time.Duration(seconds) * time.Second))
}

func head(targets int) protocol.ReportHead {
	return protocol.ReportHead{
		RunID: "01J7ZK3N8Q4V5W6X7Y8Z9A0BCD", Job: "collect_log", JobVersion: 1,
		Input: json.RawMessage(`{"date":"2026-09-16"}`), RequestedBy: "tech1", ApprovedBy: "chen", Reason: "weekly <check>",
		Revision: 1, RevisionWhy: protocol.WhyBarrier, Quorum: 0.9,
		CreatedAt: at(0), BarrierAt: at(120), AsOf: at(120), TimeZone: "Asia/Shanghai", Targets: targets,
		Columns: []protocol.Column{
			{Name: "lines", Pointer: "/lines", Title: "lines", TitleZh: "行数"},
			{Name: "note", Pointer: "/note", Title: "note", TitleZh: "备注", Unit: "text", UnitZh: "文本"},
		},
	}
}

func row(id, name string, outcome task.Outcome, reason task.Reason) protocol.StoreRow {
	r := protocol.StoreRow{
		StoreID: id, Name: name, Labels: map[string]string{"region": "east"},
		Outcome: outcome, Reason: reason, AtBarrier: outcome,
		Evidence: protocol.Evidence{AttemptsOf: 2}, TaskID: "task-" + id, Status: task.Pending,
		Columns: []json.RawMessage{json.RawMessage("null"), json.RawMessage("null")},
	}
	if outcome == task.OutcomeSucceeded {
		skew := int64(-120)
		r.Status, r.Attempt, r.TerminalID, r.FinishedAt = task.Succeeded, 1, "pos-1", at(8)
		r.SHA256, r.Bytes = strings.Repeat("ab", 32), 412
		r.Evidence = protocol.Evidence{Online: true, LastSeenAt: at(118), ClaimedAt: at(5), GrantedAt: at(6),
			StartedAt: at(7), LastSignAt: at(7), Attempts: 1, AttemptsOf: 2, ClockSkewMs: &skew}
	}
	return r
}

func valued(r protocol.StoreRow, values ...string) protocol.StoreRow {
	for i, v := range values {
		r.Columns[i] = json.RawMessage(v)
	}
	return r
}

// tb is what testing.T and rapid.T share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func rowsOf(t tb, list ...protocol.StoreRow) report.Rows {
	t.Helper()
	raws := make([]json.RawMessage, len(list))
	for i, r := range list {
		raw, err := protocol.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		raws[i] = raw
	}
	return raw(raws...)
}

func raw(raws ...json.RawMessage) report.Rows {
	return func(yield func(json.RawMessage, error) bool) {
		for _, r := range raws {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// tenStores has every outcome and every kind of hostile text, by store id.
func tenStores() []protocol.StoreRow {
	failed := row("06-8108", `O"Neil's, 店`, task.OutcomeFailed, task.ReasonAttemptsExhausted)
	failed.Status, failed.Attempt, failed.TerminalID, failed.FinishedAt = task.Failed, 2, "pos-1", at(60)
	failed.Evidence.Attempts = 2
	failed.Error = &protocol.Failure{Code: protocol.CodeInvalidResult, Path: "/lines", Message: "lines is missing\n=cmd|' /C calc'!A0",
		Detail: "打印机缺纸\r\n\t=1+1 <b>\u202egpj.exe\r\n007"}
	exit := 0
	failed.Tries = []protocol.Try{
		{Attempt: 1, TerminalID: "1E5", GrantedAt: at(6), StartedAt: at(7), EndedAt: at(37), Code: protocol.CodeLeaseExpired, Message: "silent for longer than its lease"},
		{Attempt: 2, TerminalID: "pos-1", GrantedAt: at(40), StartedAt: at(41), EndedAt: at(60), Answer: protocol.AnswerFailed, Code: protocol.CodeInvalidResult,
			Message: failed.Error.Message, ExitCode: &exit, SHA256: strings.Repeat("cd", 32), Bytes: 90}}
	silent := row("9-slow", "\u202eevil\u2066 name\u0000", task.OutcomeTimedOut, task.ReasonStartedThenSilent)
	silent.Status, silent.Attempt, silent.TerminalID = task.Running, 1, "pos-1"
	silent.Evidence = protocol.Evidence{Online: true, LastSeenAt: at(119), GrantedAt: at(6), StartedAt: at(7), LastSignAt: at(30), Attempts: 1, AttemptsOf: 2}
	gone := row("SH_0001", "=1+1", task.OutcomeOffline, task.ReasonWentOffline)
	gone.Evidence.LastSeenAt = at(40)
	cancelled := row("SH_0002", " \t=1+1", task.OutcomeCancelled, task.ReasonByUser)
	cancelled.Status, cancelled.FinishedAt = task.Cancelled, at(50)
	return []protocol.StoreRow{
		valued(row("007", "<script>alert(1)</script>", task.OutcomeSucceeded, ""), "9007199254740993", `"-5"`),
		failed,
		valued(row("1E5", "👨‍👩‍👧 店", task.OutcomeSucceeded, ""), "1.0", `"-2.50"`),
		silent,
		gone,
		cancelled,
		valued(row("SH_0003", "@SUM(A1)", task.OutcomeSucceeded, ""), "-5", `"'quoted"`),
		valued(row("SH_0004", "first\r\n=2+2", task.OutcomeSucceeded, ""), "true", `"+86 21 1234"`),
		valued(row("SH_0005", "line\u2028sep &amp;", task.OutcomeSucceeded, ""), `{"a":[1.50,"x"]}`, `"</bdi></td><img src=x onerror=alert(1)>"`),
		valued(row("SH_0006", "plain", task.OutcomeSucceeded, ""), "0", `""`),
	}
}

func build(t testing.TB, r *report.Reporter, h protocol.ReportHead, rows, previous report.Rows) protocol.ReportHead {
	t.Helper()
	built, err := r.Build(h, rows, previous)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(built, rows); err != nil {
		t.Fatal(err)
	}
	return built
}

func write(t testing.TB, r *report.Reporter, ext string, h protocol.ReportHead, rows report.Rows) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, ext, h, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTenStoresInEveryFormat(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rows := rowsOf(t, tenStores()...)
	h := build(t, r, head(10), rows, nil)
	want := protocol.Counts{Succeeded: 6, Failed: 1, TimedOut: 1, Offline: 1, Cancelled: 1}
	if h.Counts != want || h.Verdict != protocol.VerdictBelowQuorum {
		t.Fatalf("got %+v, %s", h.Counts, h.Verdict)
	}
	for _, format := range r.Formats() {
		if format.Ext == "xlsx" { // an archive: see TestTenStoresInTheWorkbook
			continue
		}
		got := write(t, r, format.Ext, h, rows)
		golden := filepath.Join("testdata", "ten_stores."+format.Ext)
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
			t.Errorf("%s differs from %s; run with -update and read the diff", format.Ext, golden)
		}
	}
}

func TestJSONKeepsEveryDigitAndOneStoreALine(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rows := rowsOf(t, tenStores()...)
	text := write(t, r, "json", build(t, r, head(10), rows, nil), rows)
	if got := strings.Count(text, "\n"); got != 12 {
		t.Errorf("got %d lines; want a head, ten rows and an end", got)
	}
	for _, digits := range []string{`[9007199254740993,"-5"]`, `[1.0,"-2.50"]`, `{"a":[1.50,"x"]}`} {
		if !strings.Contains(text, digits) {
			t.Errorf("%s is not in the file", digits)
		}
	}
	var back protocol.Report
	if err := protocol.Decode([]byte(text), len(text), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Stores) != 10 || back.Stores[3].Name != "\u202eevil\u2066 name\u0000" {
		t.Errorf("the file does not read back: %d rows", len(back.Stores))
	}
}

func TestSecondRevisionSaysWhatChanged(t *testing.T) {
	t.Parallel()
	r := setup(t)
	before := tenStores()
	after := tenStores()
	after[4] = row("SH_0001", "=1+1", task.OutcomeSucceeded, "")
	after[4].AtBarrier, after[4].Late = task.OutcomeOffline, true
	h := head(10)
	h.Revision, h.RevisionWhy = 2, protocol.WhyLateResults
	rows := rowsOf(t, after...)
	h = build(t, r, h, rows, rowsOf(t, before...))
	want := []protocol.Change{{StoreID: "SH_0001", From: task.OutcomeOffline, FromReason: task.ReasonWentOffline, To: task.OutcomeSucceeded}}
	if len(h.Changes) != 1 || h.Changes[0] != want[0] {
		t.Errorf("got changes %+v; want %+v", h.Changes, want)
	}
	if h.Supersedes == nil || *h.Supersedes != 1 {
		t.Errorf("got supersedes %v; want 1", h.Supersedes)
	}
	page := write(t, r, "html", h, rows)
	if !strings.Contains(page, `<table id="changed">`) || !strings.Contains(page, "补传") {
		t.Error("the page does not show the change")
	}
}

func TestOtherTargetsThanBeforeAreRefused(t *testing.T) {
	t.Parallel()
	r := setup(t)
	h := head(1)
	h.Revision = 2
	one := rowsOf(t, row("A", "a", task.OutcomeSucceeded, ""))
	for name, previous := range map[string]report.Rows{
		"another store": rowsOf(t, row("B", "b", task.OutcomeSucceeded, "")),
		"nobody":        rowsOf(t),
	} {
		if _, err := r.Build(h, one, previous); err == nil {
			t.Errorf("%s: built; want an error", name)
		}
	}
}

func TestNobodyAnsweredHasNoRate(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rows := rowsOf(t, row("A", "a", task.OutcomeOffline, task.ReasonOfflineWholeWindow))
	h := build(t, r, head(1), rows, nil)
	if h.Rates.SucceededOfAnswered != nil {
		t.Errorf("got a rate of %v; want none", *h.Rates.SucceededOfAnswered)
	}
	for _, format := range r.Formats() {
		text := write(t, r, format.Ext, h, rows)
		if format.Ext == "xlsx" {
			text = readXLSX(t, text).dump()
		}
		if strings.Contains(text, "NaN") {
			t.Errorf("NaN in %s", format.Ext)
		}
	}
	if text := write(t, r, "json", h, rows); !strings.Contains(text, `"succeededOfAnswered":null`) {
		t.Error("the rate of nothing is not null")
	}
	if text := write(t, r, "html", h, rows); !strings.Contains(text, "<dd>–</dd>") {
		t.Error("the page has no dash for the rate of nothing")
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for _, c := range []struct {
		good, bad int
		quorum    float64
		want      protocol.Verdict
		text      string
	}{
		{1, 0, 1, protocol.VerdictComplete, "Complete: the one store succeeded."},
		{3, 0, 1, protocol.VerdictComplete, "Complete: all 3 stores succeeded."},
		{3, 1, 0.75, protocol.VerdictPartial, "Partial: 3 of 4 stores succeeded; 1 offline."},
		{3, 1, 0, protocol.VerdictPartial, "Partial: 3 of 4 stores succeeded; 1 offline."},
		{2, 2, 0.75, protocol.VerdictBelowQuorum, "Below quorum: 2 of 4 stores succeeded; 2 offline. The job asks for 75.0 %."},
	} {
		var list []protocol.StoreRow
		for i := range c.good {
			list = append(list, row(fmt.Sprintf("A%d", i), "", task.OutcomeSucceeded, ""))
		}
		for i := range c.bad {
			list = append(list, row(fmt.Sprintf("B%d", i), "", task.OutcomeOffline, task.ReasonWentOffline))
		}
		h := head(c.good + c.bad)
		h.Quorum = c.quorum
		h = build(t, r, h, rowsOf(t, list...), nil)
		if h.Verdict != c.want || h.Text != c.text {
			t.Errorf("%d of %d: got %s, %q; want %s, %q", c.good, c.good+c.bad, h.Verdict, h.Text, c.want, c.text)
		}
	}
}

func TestCheckRefusesWhatMustNotBePublished(t *testing.T) {
	t.Parallel()
	r := setup(t)
	good := func() (protocol.ReportHead, []protocol.StoreRow) {
		list := []protocol.StoreRow{
			row("A", "a", task.OutcomeSucceeded, ""), row("B", "b", task.OutcomeOffline, task.ReasonWentOffline)}
		h, err := r.Build(head(2), rowsOf(t, list...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return h, list
	}
	nan := math.NaN()
	for name, c := range map[string]struct {
		spoil func(*protocol.ReportHead, []protocol.StoreRow) []protocol.StoreRow
		sum   bool
		want  string
	}{
		"a row is missing": {func(_ *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow { return l[:1] },
			true, "1 rows for 2 targets"},
		"a row stands twice": {func(_ *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			return []protocol.StoreRow{l[0], l[0]}
		}, true, "store A follows A"},
		"rows out of order": {func(_ *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			return []protocol.StoreRow{l[1], l[0]}
		}, true, "store A follows B"},
		"counts that do not sum": {func(h *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			h.Counts.Offline = 0
			return l
		}, true, "the buckets hold 1 of 2 targets"},
		"counts of other rows": {func(h *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			h.Counts.Offline, h.Counts.Failed = 0, 1
			return l
		}, true, "the rows count"},
		"a reason of another outcome": {func(_ *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			l[1].Reason = task.ReasonByUser
			return l
		}, true, `store B has reason "by_user" beside outcome "offline"`},
		"an unknown outcome": {func(_ *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			l[1].Outcome = "lost"
			return l
		}, false, "/outcome"},
		"a column too few": {func(_ *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			l[1].Columns = l[1].Columns[:1]
			return l
		}, true, "store B has 1 columns of 2"},
		"a hash that is none": {func(_ *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			l[0].SHA256 = "abc"
			return l
		}, false, "/resultSha256"},
		"a head without a verdict": {func(h *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			h.Verdict = ""
			return l
		}, false, "/verdict"},
		"a rate that is no number": {func(h *protocol.ReportHead, l []protocol.StoreRow) []protocol.StoreRow {
			h.Rates.Answered = &nan
			return l
		}, false, "NaN"},
	} {
		h, list := good()
		list = c.spoil(&h, list)
		err := r.Check(h, rowsOf(t, list...))
		if err == nil || errors.Is(err, report.ErrSumRule) != c.sum || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want an error with %q (sum rule %t)", name, err, c.want, c.sum)
		}
	}
}

func TestOneStoresAnswerCannotStopTheReportOfAll(t *testing.T) {
	t.Parallel()
	r := setup(t)
	deep := strings.Repeat("[", protocol.MaxDepth) + strings.Repeat("]", protocol.MaxDepth)
	large := `"` + strings.Repeat("x", protocol.MaxResultBytes) + `"`
	rows := rowsOf(t, valued(row("A", "deep", task.OutcomeSucceeded, ""), deep, "1"),
		valued(row("B", "large", task.OutcomeSucceeded, ""), large, large))
	h := build(t, r, head(2), rows, nil)
	if text := write(t, r, "json", h, rows); !strings.Contains(text, deep) || strings.Count(text, large) != 2 {
		t.Error("the file does not hold the answers as they are")
	}
	if page := write(t, r, "html", h, rows); !strings.Contains(page, "x … [262144]") {
		t.Error("the page does not say that it cut a value")
	}
	broken := row("C", "broken", task.OutcomeSucceeded, "")
	broken.SHA256 = "abc"
	rows = rowsOf(t, valued(broken, deep, "1"))
	h = head(1)
	h, err := r.Build(h, rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(h, rows); err == nil || !strings.Contains(err.Error(), "/resultSha256") {
		t.Errorf("got %v; want the rest of such a row to be checked", err)
	}
}

func TestAnUnreadableRowStopsEverything(t *testing.T) {
	t.Parallel()
	r := setup(t)
	broken := errors.New("disk is gone")
	rows := func(yield func(json.RawMessage, error) bool) { yield(nil, broken) }
	if _, err := r.Build(head(1), rows, nil); !errors.Is(err, broken) {
		t.Errorf("Build: got %v", err)
	}
	if err := r.Check(protocol.ReportHead{}, rows); !errors.Is(err, broken) {
		t.Errorf("Check: got %v", err)
	}
	for _, format := range r.Formats() {
		if err := r.Write(&bytes.Buffer{}, format.Ext, head(1), rows); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", format.Ext, err)
		}
	}
	if err := r.Write(&bytes.Buffer{}, "pdf", head(1), rows); err == nil {
		t.Error("an unknown format is written")
	}
}
