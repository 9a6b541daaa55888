package rollcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
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

// watched is a reporter that notes how long each format took.
type watched struct {
	barrier.Reporter
	mu    sync.Mutex
	began time.Time // to look at the revision
	took  map[string]time.Duration
}

func (w *watched) Build(head protocol.ReportHead, rows, previous iter.Seq2[json.RawMessage, error]) (protocol.ReportHead, error) {
	w.began = time.Now()
	return w.Reporter.Build(head, rows, previous)
}

func (w *watched) Write(out io.Writer, ext string, head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error {
	began := time.Now()
	err := w.Reporter.Write(out, ext, head, rows)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took[ext] = time.Since(began)
	return err
}

// BenchmarkReportOfHundredThousandStores publishes a stored revision and says how
// long each format took, against one bare scan of its rows in the same run:
// json-out is everything from the first look at the revision to its first summary,
// and whole everything to the last.
func BenchmarkReportOfHundredThousandStores(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		o := setup(b)
		o.barrier.Stop()
		o.create(manyIDs(), []string{"上海虹桥店"})
		judged(b, o.store)
		w := &watched{Reporter: o.deps.Reporter, took: map[string]time.Duration{}}
		var told []time.Time
		done := make(chan struct{})
		deps := o.deps
		deps.Reporter = w
		deps.Sender = transport.NewSender(publisher(func(out transport.Outbound) error {
			told = append(told, time.Now())
			if len(told) == 2 {
				close(done)
			}
			return nil
		}), deps.Sender.Topics(), time.Now)
		step := barrier.New(deps, o.config)
		scan := scanned(b, o.store)
		b.StartTimer()
		if err := step.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		<-done
		b.StopTimer()
		step.Stop()
		scan = min(scan, scanned(b, o.store))
		for _, format := range w.Formats() {
			b.ReportMetric(w.took[format.Ext].Seconds()/scan.Seconds(), format.Ext+"/scan")
		}
		b.ReportMetric(told[0].Sub(w.began).Seconds()/scan.Seconds(), "json-out/scan")
		b.ReportMetric(told[1].Sub(w.began).Seconds()/scan.Seconds(), "whole/scan")
		b.ReportMetric(scan.Seconds(), "scan-s")
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/(1<<20), "heap-MiB")
		b.StartTimer()
	}
}

type publisher func(transport.Outbound) error

func (p publisher) Publish(_ context.Context, out transport.Outbound) error { return p(out) }

// scanned is how long it takes to read every row of the revision.
func scanned(b *testing.B, s *store.Store) time.Duration {
	b.Helper()
	runtime.GC()
	began := time.Now()
	for _, err := range s.LoadRows(b.Context(), runID, 1) {
		if err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
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
			Columns:  []json.RawMessage{json.RawMessage("12345"), json.RawMessage(`"ok"`)}}
		if i%10 == 0 {
			row.Outcome, row.Reason, row.Status = task.OutcomeFailed, task.ReasonExecutionError, task.Failed
			row.SHA256, row.Bytes, row.Columns[0], row.Columns[1] = "", 0, json.RawMessage("null"), json.RawMessage("null")
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
