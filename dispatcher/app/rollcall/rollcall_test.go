// Package rollcall_test tries the barrier and the report together, over the
// real store: the steps know nothing of each other, so this stands with app.
package rollcall_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/report"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/schemas"
)

const runID = "20260917-233000-7tk3f9"

type office struct {
	t       testing.TB
	folder  string
	store   *store.Store
	deps    barrier.Deps
	config  barrier.Config
	barrier *barrier.Barrier
	columns []protocol.Column // of the job

	mu   sync.Mutex
	sent [][]byte
}

func setup(t testing.TB, observers ...func([]store.Change)) *office {
	t.Helper()
	dir := t.TempDir()
	o := &office{t: t, folder: filepath.Join(dir, "reports"),
		columns: []protocol.Column{{Name: "n", Pointer: "/n", Title: "number", TitleZh: "数"}, {Name: "s", Pointer: "/s", Title: "text"}}}
	if err := os.Mkdir(o.folder, 0o750); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "muster.db")})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := schemas.FS.ReadFile("report.v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	reporter, err := report.New(doc)
	if err != nil {
		t.Fatal(err)
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	o.store = s
	o.deps = barrier.Deps{Runs: s, Snapshots: barrier.Pinned(s), Revisions: s, Publications: s, Retries: s, Reporter: reporter,
		Sender: transport.NewSender(o, topics, time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Alarm: func(kind, id string, err error) { t.Errorf("alarm %s for run %s: %v", kind, id, err) }}
	o.config = barrier.Config{Folder: o.folder, Location: time.FixedZone("Asia/Shanghai", 8*3600)}
	o.barrier = barrier.New(o.deps, o.config)
	for _, observer := range append(observers, o.barrier.Changed) {
		s.Observe(observer)
	}
	if err := o.barrier.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		o.barrier.Stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// Publish plays the broker.
func (o *office) Publish(_ context.Context, out transport.Outbound) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if out.Retain { // else it is a line for eyes
		o.sent = append(o.sent, out.Payload)
	}
	return nil
}

func (o *office) create(ids, names []string) {
	o.t.Helper()
	now := time.Now()
	run := store.Run{RunID: runID, Job: "collect_log", JobVersion: 1, RequestedBy: "ada", Reason: "=1+1", Input: json.RawMessage(`{"date":"yesterday"}`),
		Policy:    job.Policy{Attempts: 1, Lease: 30 * time.Second, Late: job.AcceptAndRevise, Quorum: 0.5},
		Columns:   o.columns,
		CreatedAt: now, BarrierAt: now.Add(2 * time.Minute), MakeupUntil: now.Add(time.Hour)}
	var places []store.Place
	var tasks []store.NewTask
	for i, id := range ids {
		places = append(places, store.Place{StoreID: id, Name: names[i%len(names)], TimeZone: "Asia/Shanghai", Labels: map[string]string{"region": "=east"}})
		tasks = append(tasks, store.NewTask{TaskID: "T-" + id, StoreID: id})
	}
	if _, err := o.store.CreateRun(context.Background(), run, places, tasks, store.Request{}, now); err != nil {
		o.t.Fatal(err)
	}
}

// run lets a store do its task as far as ends says: granted, silent, or with
// an answer.
func (o *office) run(id, ends string, columns ...string) {
	o.t.Helper()
	ctx, now := context.Background(), time.Now()
	if _, err := o.store.SetPresence(ctx, store.Terminal{StoreID: id, TerminalID: "pos1", Online: true, SessionID: "s", Since: now, LastSeenAt: now}, now); err != nil {
		o.t.Fatal(err)
	}
	if ends == "online" {
		return
	}
	granted, err := o.store.Grant(ctx, store.Grant{TaskID: "T-" + id, StoreID: id, TerminalID: "pos1", LeaseUntil: now.Add(30 * time.Second)}, now)
	if err != nil || granted.Refusal != "" {
		o.t.Fatalf("grant to %s: %s, %v", id, granted.Refusal, err)
	}
	answer := store.Answer{Event: task.Succeed, Attempt: store.Attempt{TaskID: "T-" + id, Attempt: 1, StoreID: id, TerminalID: "pos1",
		Answer: protocol.AnswerSucceeded, Executed: true, Result: json.RawMessage(`{}`), SHA256: strings.Repeat("0a", 32)}}
	for _, c := range columns {
		answer.Attempt.Columns = append(answer.Attempt.Columns, json.RawMessage(c))
	}
	switch ends {
	case "granted":
		return
	case "failed":
		answer.Event, answer.Attempt.Answer, answer.Attempt.Result = task.GiveUp, protocol.AnswerFailed, nil
		answer.Attempt.Failure = &protocol.Failure{Code: "weird code!", Message: "@SUM(A1)\n\u202e<b>", Detail: "stack"}
	}
	// The same answer twice, as a flaky link sends it.
	for range 2 {
		if _, err := o.store.Settle(ctx, answer, now); err != nil {
			o.t.Fatal(err)
		}
	}
}

// files reads the report folder by what follows the revision in each name.
func (o *office) files() map[string]string {
	o.t.Helper()
	out := map[string]string{}
	name := regexp.MustCompile(`^2000/01/20000101-0800_collect_log_` + runID + `_(r\d+(_manifest)?\.[a-z]+)$`)
	err := fs.WalkDir(os.DirFS(o.folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		part := name.FindStringSubmatch(path)
		if part == nil {
			return fmt.Errorf("a file has the name %s", path)
		}
		data, err := os.ReadFile(filepath.Join(o.folder, path))
		out[part[1]] = string(data)
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

func fits(t testing.TB, name, doc string) {
	t.Helper()
	text, err := schemas.FS.ReadFile(name + ".v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(name, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate([]byte(doc)); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// says checks that JSON, CSV and HTML of a revision tell the same counts, and
// that they sum to the targets.
func says(t testing.TB, files map[string]string, revision string, want protocol.Counts, targets int) protocol.Report {
	t.Helper()
	fits(t, "report", files[revision+".json"])
	fits(t, "manifest", files[revision+"_manifest.json"])
	var r protocol.Report
	if err := json.Unmarshal([]byte(files[revision+".json"]), &r); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(files[revision+".csv"], "\ufeff"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var inCSV protocol.Counts
	for _, line := range lines[1:] {
		inCSV.Add(task.Outcome(line[2]))
	}
	var inHTML []string
	_, table, _ := strings.Cut(files[revision+".html"], `<table id="counts">`)
	for _, cell := range regexp.MustCompile(`</th><td class="n"><data value="(\d+)">[^<]*</data></td>`).FindAllStringSubmatch(table, -1) {
		inHTML = append(inHTML, cell[1])
	}
	wantHTML := fmt.Sprintf("[%d %d %d %d %d %d]", want.Succeeded, want.Failed, want.TimedOut, want.Offline, want.Cancelled, targets)
	if r.Counts != want || r.Targets != targets || r.Counts.Sum() != targets || len(r.Stores) != targets || inCSV != want || fmt.Sprint(inHTML) != wantHTML {
		t.Errorf("%s: JSON %+v of %d, CSV %+v, HTML %v; want %+v of %d", revision, r.Counts, r.Targets, inCSV, inHTML, want, targets)
	}
	return r
}

func TestTenStoresSumToTenInEveryFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := setup(t)
		ids := []string{"007", "06-8108", "1E5", "S3", "S4", "S5", "S6", "S7", "S8", "S9"}
		o.create(ids, []string{`<script>alert("1")</script>`, "=1+1", "O'Neil \"quoted\", 店", "👨‍👩‍👧", "\u202eevil"})
		for i, id := range ids[:6] {
			o.run(id, "well", []string{"9007199254740993", "1.0", "-5", "0.10", "null", "-2.50"}[i], `"=cmd"`)
		}
		o.run("S6", "failed")
		o.run("S7", "granted")
		if _, _, err := o.store.Cancel(t.Context(), runID, []string{"S9"}, task.ReasonByUser, "ada", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		first := o.files()
		counts := protocol.Counts{Succeeded: 6, Failed: 1, TimedOut: 1, Offline: 1, Cancelled: 1}
		r := says(t, first, "r1", counts, 10)
		if r.Verdict != protocol.VerdictPartial || len(first) != 5 {
			t.Errorf("verdict %s, %d files", r.Verdict, len(first))
		}
		if got := string(r.Stores[0].Columns[0]) + " " + string(r.Stores[1].Columns[0]); got != "9007199254740993 1.0" {
			t.Errorf("numbers became %s", got)
		}

		o.run("S8", "well", "1", `"late"`)
		time.Sleep(time.Minute)
		synctest.Wait()
		second := o.files()
		for name, data := range first {
			if second[name] != data {
				t.Errorf("%s changed after revision 2", name)
			}
		}
		counts.Succeeded, counts.Offline = 7, 0
		r = says(t, second, "r2", counts, 10)
		want := protocol.Change{StoreID: "S8", From: task.OutcomeOffline, FromReason: task.ReasonOfflineWholeWindow, To: task.OutcomeSucceeded}
		if len(r.Changes) != 1 || r.Changes[0] != want || r.Supersedes == nil || *r.Supersedes != 1 {
			t.Errorf("revision 2 says %+v", r.Changes)
		}
		for _, payload := range o.sent {
			fits(t, "summary", string(payload))
		}
		if len(o.sent) != 2 {
			t.Errorf("%d summaries", len(o.sent))
		}
	})
}

func TestNobodyAnswersAndTheReportSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := setup(t)
		o.create([]string{"A", "B"}, []string{"x"})
		o.run("B", "online")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r := says(t, o.files(), "r1", protocol.Counts{TimedOut: 1, Offline: 1}, 2)
		if r.Rates.SucceededOfAnswered != nil || r.Verdict != protocol.VerdictBelowQuorum || r.Stores[1].Reason != task.ReasonOnlineNeverClaimed {
			t.Errorf("got rates %+v, verdict %s, B: %s", r.Rates, r.Verdict, r.Stores[1].Reason)
		}
	})
}
