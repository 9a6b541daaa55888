//go:build unix

package rollcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/configs"
	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/schemas"
)

const manyStores = 100_000

func manyIDs() []string {
	ids := make([]string, manyStores)
	for i := range ids {
		ids[i] = fmt.Sprintf("S%06d", i)
	}
	return ids
}

// BenchmarkBarrierOfHundredThousandStores is from the last cancelled task to
// the retained summary: judge, store, check and write all files.
func BenchmarkBarrierOfHundredThousandStores(b *testing.B) {
	ids := manyIDs()
	for b.Loop() {
		b.StopTimer()
		done := make(chan struct{})
		o := setup(b, func(changes []store.Change) {
			if changes[len(changes)-1].Kind == store.RunClosed {
				close(done)
			}
		})
		o.create(ids, []string{"上海虹桥店"})
		b.StartTimer()
		if _, _, err := o.store.Cancel(b.Context(), runID, nil, task.ReasonByUser, "ada", time.Now()); err != nil {
			b.Fatal(err)
		}
		<-done
	}
}

// spell is how long something took, and the processor time of the whole program meanwhile,
// which other programs lengthen less.
type spell struct{ wall, cpu time.Duration }

func begin() spell {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return spell{time.Duration(time.Now().UnixNano()), time.Duration(used.Utime.Nano() + used.Stime.Nano())}
}

func (s spell) end() spell {
	now := begin()
	return spell{now.wall - s.wall, now.cpu - s.cpu}
}

// over reports how often the other spell fits into this one.
func (s spell) over(b *testing.B, name string, other spell) {
	b.Helper()
	b.ReportMetric(s.wall.Seconds()/other.wall.Seconds(), name)
	b.ReportMetric(s.cpu.Seconds()/other.cpu.Seconds(), name+"-cpu")
}

// watched is a reporter that notes how long each step and format took.
type watched struct {
	barrier.Reporter
	mu    sync.Mutex
	began spell // with the first look at the revision
	took  map[string]spell
}

func (w *watched) Build(head protocol.ReportHead, rows, previous iter.Seq2[json.RawMessage, error]) (protocol.ReportHead, error) {
	w.began = begin()
	defer w.note("build", w.began)
	return w.Reporter.Build(head, rows, previous)
}

func (w *watched) Check(head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error {
	defer w.note("check", begin())
	return w.Reporter.Check(head, rows)
}

func (w *watched) Write(out io.Writer, ext string, head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error {
	defer w.note(ext, begin())
	return w.Reporter.Write(out, ext, head, rows)
}

func (w *watched) note(step string, began spell) {
	took := began.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took[step] = took
}

// collects are the columns of the job collect_log.
func collects(b *testing.B) []protocol.Column {
	b.Helper()
	folder, err := fs.Sub(configs.FS, "jobs")
	if err != nil {
		b.Fatal(err)
	}
	jobs, err := job.Load("jobs", folder, schemas.FS)
	if err != nil {
		b.Fatal(err)
	}
	spec, _ := jobs.Get("collect_log")
	return spec.Columns
}

// BenchmarkReportOfHundredThousandStores publishes a stored revision and says how
// long each format took, against one bare scan of its rows in the same run:
// json-out is everything from the first look at the revision to its first summary,
// and whole everything to the last. The workbook stands beside the library that only
// streams the same cells. peak-MiB is the most that was resident, the making of the
// revision included.
func BenchmarkReportOfHundredThousandStores(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		o := setup(b)
		o.barrier.Stop()
		o.columns = collects(b)
		o.create(manyIDs(), []string{"上海虹桥店"})
		judged(b, o.store)
		scan := scanned(b, o.store)
		b.StartTimer()
		w, told := o.published(b)
		b.StopTimer()
		if again := scanned(b, o.store); again.cpu < scan.cpu {
			scan = again
		}
		peak := resident(b)
		for _, step := range []string{"build", "check", "json", "csv", "html", "xlsx"} {
			w.took[step].over(b, step+"/scan", scan)
		}
		told[0].over(b, "json-out/scan", scan)
		told[1].over(b, "whole/scan", scan)
		b.ReportMetric(scan.wall.Seconds(), "scan-s")
		b.ReportMetric(peak, "peak-MiB")
		b.ReportMetric(o.sized(b, ".html")/1e6, "html-MB")
		w.took["xlsx"].over(b, "xlsx/excelize", streamed(b, o.path(b, ".xlsx")))
		b.StartTimer()
	}
}

// published publishes the stored revision, and returns when its two summaries were said,
// from the first look at it.
func (o *office) published(b *testing.B) (*watched, []spell) {
	b.Helper()
	w := &watched{Reporter: o.deps.Reporter, took: map[string]spell{}}
	var told []spell
	done := make(chan struct{})
	deps := o.deps
	deps.Reporter = w
	deps.Sender = transport.NewSender(publisher(func(out transport.Outbound) error {
		if !out.Retain { // a line for eyes
			return nil
		}
		told = append(told, w.began.end())
		if len(told) == 2 {
			close(done)
		}
		return nil
	}), deps.Sender.Topics(), time.Now)
	step := barrier.New(deps, o.config)
	if err := step.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	<-done
	step.Stop()
	return w, told
}

// path is where the report has its file with that ending.
func (o *office) path(b *testing.B, ending string) string {
	b.Helper()
	found, err := filepath.Glob(filepath.Join(o.folder, "*", "*", "*"+runID+"*"+ending))
	if err != nil || len(found) != 1 {
		b.Fatalf("files %v, %v", found, err)
	}
	return found[0]
}

func (o *office) sized(b *testing.B, ending string) float64 {
	b.Helper()
	info, err := os.Stat(o.path(b, ending))
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size())
}

// resident is the most memory that the process ever had, in MiB.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("this system does not say what is resident")
	}
	_, line, _ := strings.Cut(string(text), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(line, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

type publisher func(transport.Outbound) error

func (p publisher) Publish(_ context.Context, out transport.Outbound) error { return p(out) }

// scanned is how long it takes to read every row of the revision.
func scanned(b *testing.B, s *store.Store) spell {
	b.Helper()
	runtime.GC()
	began := begin()
	for _, err := range s.LoadRows(b.Context(), runID, 1) {
		if err != nil {
			b.Fatal(err)
		}
	}
	return began.end()
}

// judged stores a revision in which nine of ten stores succeeded.
func judged(b *testing.B, s *store.Store) {
	b.Helper()
	snap, err := s.CloseBarrier(b.Context(), runID, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	if err := snap.Close(); err != nil {
		b.Fatal(err)
	}
	at := protocol.At(time.Now().In(time.FixedZone("Asia/Shanghai", 8*3600)))
	rev := store.NewRevision{RunID: runID, Revision: 1, Why: string(protocol.WhyBarrier), AsOf: at.Time}
	skew := int64(-120)
	for i, id := range manyIDs() {
		row := protocol.StoreRow{StoreID: id, Name: "上海虹桥店", Labels: map[string]string{"region": "east"},
			Outcome: task.OutcomeSucceeded, AtBarrier: task.OutcomeSucceeded, TaskID: "T-" + id, Status: task.Succeeded, Attempt: 1, TerminalID: "pos-1",
			FinishedAt: at, SHA256: strings.Repeat("0a", 32), Bytes: 412,
			Evidence: protocol.Evidence{Online: true, LastSeenAt: at, ClaimedAt: at, GrantedAt: at, StartedAt: at, LastSignAt: at, Attempts: 1, AttemptsOf: 2, ClockSkewMs: &skew},
			Columns:  answered(i)}
		if i%10 == 0 {
			row.Outcome, row.Reason, row.Status = task.OutcomeFailed, task.ReasonExecutionError, task.Failed
			row.SHA256, row.Bytes, row.Columns = "", 0, slices.Repeat([]json.RawMessage{json.RawMessage("null")}, len(row.Columns))
			row.Error = &protocol.Failure{Code: protocol.CodeExecution, Message: "cannot read /var/log/pos.log: permission denied"}
		}
		raw, err := protocol.Encode(row)
		if err != nil {
			b.Fatal(err)
		}
		rev.Rows = append(rev.Rows, store.OutcomeRow{StoreID: id, Outcome: row.Outcome, Reason: row.Reason, Row: raw})
	}
	if err := s.AddRevision(b.Context(), rev, time.Now()); err != nil {
		b.Fatal(err)
	}
}

// answered are values of the columns of the job collect_log: date, files, bytes, lines,
// errors, warnings, the most frequent error, configuration files, problems, truncated.
func answered(i int) []json.RawMessage {
	text := fmt.Sprintf(`["2026-09-16",%d,%d,%d,%d,%d,"printer %d: out of paper",3,0,%t]`, 1+i%4, 40_000+i*37%900_000, 2000+i*7919%9000, i*31%40, i*17%90, i%50, i%9 == 0)
	var values []json.RawMessage
	if json.Unmarshal([]byte(text), &values) != nil {
		return nil
	}
	return values
}
