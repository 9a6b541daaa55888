package barrier_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

const runID = "R1"

// desk is a real store with a barrier over it, in a bubble where time is
// fake. Only the broker and the look of a report are played.
type desk struct {
	t       *testing.T
	dir     string
	store   *store.Store
	barrier *barrier.Barrier
	report  *plainReport
	stuck   *stuckMarks
	hook    hookedRevisions
	poison  poisonedSnapshots

	step atomic.Int64 // of headquarters' wall clock, in ns
	lost atomic.Int64 // for which headquarters did not run, in ns
	deaf atomic.Bool  // the barrier does not hear yet what changed
	mad  atomic.Bool  // headquarters' time cannot be told

	mute atomic.Pointer[chan struct{}] // the broker takes messages and does not answer until it is closed

	mu      sync.Mutex
	sent    []protocol.Summary
	away    error // of the broker
	alarms  []string
	changes []store.Change
}

func setup(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), report: &plainReport{}, stuck: &stuckMarks{}}
	if err := os.Mkdir(filepath.Join(d.dir, "reports"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.open()
	t.Cleanup(d.close)
	return d
}

func (d *desk) open() {
	d.t.Helper()
	s, err := store.Open(context.Background(), store.Options{Path: filepath.Join(d.dir, "muster.db")})
	if err != nil {
		d.t.Fatal(err)
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		d.t.Fatal(err)
	}
	d.store = s
	d.stuck.Publications = s
	d.hook.Revisions = s
	d.poison.Snapshots = barrier.Pinned(s)
	d.barrier = barrier.New(barrier.Deps{
		Runs: s, Snapshots: &d.poison, Revisions: &d.hook, Publications: d.stuck, Retries: s, Reporter: d.report,
		Sender: transport.NewSender(d, topics, d.now), Now: d.now, Lost: func() time.Duration { return time.Duration(d.lost.Load()) }, Log: slog.New(slog.DiscardHandler), Alarm: d.alarm,
		Ward: &quarantine.Ward{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alarm: d.alarm},
	}, barrier.Config{Folder: filepath.Join(d.dir, "reports"), Location: time.FixedZone("Asia/Shanghai", 8*3600)})
	s.Observe(func(changes []store.Change) {
		if !d.deaf.Load() {
			d.barrier.Changed(changes)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.changes = append(d.changes, changes...)
	})
}

func (d *desk) now() time.Time {
	if d.mad.Load() {
		panic("nobody can tell the time")
	}
	return time.Now().Add(time.Duration(d.step.Load()))
}

func (d *desk) start() {
	d.t.Helper()
	if err := d.barrier.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) close() {
	d.t.Helper()
	d.barrier.Stop()
	d.barrier.Stop() // twice does no harm
	if err := d.store.Close(); err != nil {
		d.t.Error(err)
	}
}

// restart is a dispatcher that died and came back.
func (d *desk) restart() {
	d.t.Helper()
	d.close()
	d.open()
	d.start()
}

// pass lets the time pass and everything that it sets off happen.
func (d *desk) pass(by time.Duration) {
	d.t.Helper()
	time.Sleep(by)
	d.settle()
}

// settle waits until nothing moves any more. Work on the disk is no durable
// block, so the bubble waits for it too.
func (d *desk) settle() {
	d.t.Helper()
	synctest.Wait()
}

// Publish plays the broker.
func (d *desk) Publish(ctx context.Context, out transport.Outbound) error {
	if mute := d.mute.Load(); mute != nil {
		select {
		case <-*mute:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away != nil {
		return d.away
	}
	var s protocol.Summary
	if err := json.Unmarshal(out.Payload, &s); err != nil {
		return err
	}
	if out.Topic != "muster/v1/runs/"+s.RunID+"/summary" || !out.Retain {
		return fmt.Errorf("summary on %s, retained %t", out.Topic, out.Retain)
	}
	d.sent = append(d.sent, s)
	return nil
}

func (d *desk) refuse(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = err
}

func (d *desk) alarm(kind, id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alarms = append(d.alarms, fmt.Sprintf("%s %s: %v", kind, id, err))
}

func (d *desk) summaries() []protocol.Summary {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]protocol.Summary(nil), d.sent...)
}

func (d *desk) raised() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.alarms...)
}

// create makes a run over the stores S0 to Sn-1, each with the task T and its
// number: barrier in 2 minutes, make-up for an hour.
func (d *desk) create(n int, change ...func(*store.Run)) {
	d.t.Helper()
	now := time.Now()
	run := store.Run{RunID: runID, Job: "collect_log", JobVersion: 1, RequestedBy: "ada", Input: json.RawMessage(`{}`),
		Policy:    job.Policy{Attempts: 2, Lease: 30 * time.Second, Late: job.AcceptAndRevise, Quorum: 0.5},
		Columns:   []protocol.Column{{Name: "n", Pointer: "/n", Title: "n"}},
		CreatedAt: now, BarrierAt: now.Add(2 * time.Minute), MakeupUntil: now.Add(time.Hour)}
	for _, f := range change {
		f(&run)
	}
	var places []store.Place
	var tasks []store.NewTask
	for i := range n {
		places = append(places, store.Place{StoreID: shop(i), Name: "Store " + shop(i), TimeZone: "Asia/Shanghai"})
		tasks = append(tasks, store.NewTask{TaskID: run.RunID + "-T" + shop(i), StoreID: shop(i)})
	}
	if _, err := d.store.CreateRun(d.t.Context(), run, places, tasks, store.Request{}, now); err != nil {
		d.t.Fatal(err)
	}
	d.settle()
}

func shop(i int) string   { return fmt.Sprintf("S%03d", i) }
func taskOf(i int) string { return runID + "-T" + shop(i) }

func (d *desk) online(i int, yes bool) {
	d.t.Helper()
	now := time.Now()
	applied, err := d.store.SetPresence(d.t.Context(), store.Terminal{StoreID: shop(i), TerminalID: "pos1", Online: yes,
		SessionID: "one", Since: now, LastSeenAt: now}, now)
	if err != nil || !applied {
		d.t.Fatalf("presence of %s: %t, %v", shop(i), applied, err)
	}
}

// grant lets store i run, and start if it is to.
func (d *desk) grant(i int, starts bool) int {
	d.t.Helper()
	now := time.Now()
	g, err := d.store.Grant(d.t.Context(), store.Grant{TaskID: taskOf(i), StoreID: shop(i), TerminalID: "pos1", LeaseUntil: now.Add(30 * time.Second)}, now)
	if err != nil || g.Refusal != "" {
		d.t.Fatalf("grant to %s: %+v, %v", shop(i), g, err)
	}
	if starts {
		d.sign(i, g.Task.State.Attempt)
	}
	return g.Task.State.Attempt
}

func (d *desk) sign(i, attempt int) {
	d.t.Helper()
	now := time.Now()
	ok, err := d.store.Sign(d.t.Context(), store.Sign{TaskID: taskOf(i), Attempt: attempt, StoreID: shop(i), TerminalID: "pos1", LeaseUntil: now.Add(30 * time.Second)}, now)
	if err != nil || !ok {
		d.t.Fatalf("sign of %s: %t, %v", shop(i), ok, err)
	}
}

// answer settles the running attempt of store i; code is empty for a success.
func (d *desk) answer(i, attempt int, code protocol.Code) store.Settled {
	d.t.Helper()
	a := store.Answer{Event: task.Succeed, Attempt: store.Attempt{TaskID: taskOf(i), Attempt: attempt, StoreID: shop(i), TerminalID: "pos1",
		Answer: protocol.AnswerSucceeded, Executed: true, Result: json.RawMessage(`{"n":9007199254740993}`), Bytes: 22,
		SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(`{"n":9007199254740993}`))), Columns: []json.RawMessage{json.RawMessage("9007199254740993")}}}
	if code != "" {
		a.Event, a.Attempt.Answer = task.Fail, protocol.AnswerFailed
		a.Attempt.Result, a.Attempt.Columns = nil, nil
		a.Attempt.Failure = &protocol.Failure{Code: code, Message: "no"}
		a.Attempt.SHA256 = fmt.Sprintf("%064d", attempt)
	}
	settled, err := d.store.Settle(d.t.Context(), a, time.Now())
	if err != nil || !settled.Applied {
		d.t.Fatalf("answer of %s: %+v, %v", shop(i), settled, err)
	}
	return settled
}

// succeed does all of it for store i.
func (d *desk) succeed(i int) { d.answer(i, d.grant(i, true), "") }

func (d *desk) revisions() []store.Revision {
	d.t.Helper()
	list, err := d.store.ListRevisions(d.t.Context(), runID)
	if err != nil {
		d.t.Fatal(err)
	}
	return list
}

func (d *desk) run() store.Run {
	d.t.Helper()
	run, err := d.store.GetRun(d.t.Context(), runID)
	if err != nil {
		d.t.Fatal(err)
	}
	return run
}

func (d *desk) rows(revision int) map[string]protocol.StoreRow {
	d.t.Helper()
	out := map[string]protocol.StoreRow{}
	for r, err := range d.store.LoadRows(d.t.Context(), runID, revision) {
		if err != nil {
			d.t.Fatal(err)
		}
		var row protocol.StoreRow
		if err := json.Unmarshal(r.Row, &row); err != nil {
			d.t.Fatal(err)
		}
		if row.Outcome != r.Outcome || row.Reason != r.Reason || row.StoreID != r.StoreID {
			d.t.Errorf("row %+v does not say what %s says", r, r.Row)
		}
		out[r.StoreID] = row
	}
	return out
}

// files reads every file below the report folder.
func (d *desk) files() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	root := filepath.Join(d.dir, "reports")
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, relErr := filepath.Rel(root, path)
		out[filepath.ToSlash(name)] = string(data)
		return errors.Join(err, relErr)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	return out
}

// plainReport counts, and writes the head and the rows as they are. What a
// real report looks like is tested where it is made.
type plainReport struct {
	refuse error
	poison atomic.Value // the format (string) that panics on R1
}

func (p *plainReport) Build(head protocol.ReportHead, rows, previous iter.Seq2[json.RawMessage, error]) (protocol.ReportHead, error) {
	if (head.Revision > 1) != (previous != nil) {
		return head, fmt.Errorf("revision %d comes with previous rows: %t", head.Revision, previous != nil)
	}
	for raw, err := range rows {
		var row protocol.StoreRow
		if err := errors.Join(err, json.Unmarshal(raw, &row)); err != nil {
			return head, err
		}
		head.Counts.Add(row.Outcome)
	}
	if before := head.Revision - 1; before > 0 {
		head.Supersedes = &before
	}
	head.Schema, head.Text, head.TextZh = protocol.ReportSchema, "said", "说"
	return head, nil
}

func (p *plainReport) Check(protocol.ReportHead, iter.Seq2[json.RawMessage, error]) error {
	return p.refuse
}

func (p *plainReport) Formats() []protocol.FileFormat {
	return []protocol.FileFormat{{Ext: "json", MediaType: "application/json", Rules: "plain"}, {Ext: "csv", MediaType: "text/csv"}}
}

func (p *plainReport) Write(w io.Writer, ext string, head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error {
	if p.poison.Load() == ext && head.RunID == runID {
		panic("a row that nobody can write")
	}
	first, err := protocol.Encode(head)
	if err != nil {
		return err
	}
	if ext != "json" { // which begins with the head
		first = append([]byte(ext+"\n"), first...)
	}
	if _, err := fmt.Fprintf(w, "%s\n", first); err != nil {
		return err
	}
	for raw, err := range rows {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", raw); err != nil {
			return err
		}
	}
	return nil
}

// stuckMarks can fail where a process could die: before a revision has another
// number, and after the files.
type stuckMarks struct {
	barrier.Publications
	mu             sync.Mutex
	marks, reissue error
}

func (s *stuckMarks) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks, s.reissue = err, err
}

func (s *stuckMarks) failMarks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks, s.reissue = err, nil
}

func (s *stuckMarks) MarkPublished(ctx context.Context, id string, revision int, files []protocol.ManifestFile, now time.Time) error {
	s.mu.Lock()
	err := s.marks
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Publications.MarkPublished(ctx, id, revision, files, now)
}

func (s *stuckMarks) Reissue(ctx context.Context, id string, highest int, now time.Time) (int, error) {
	s.mu.Lock()
	err := s.reissue
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return s.Publications.Reissue(ctx, id, highest, now)
}

// hookedRevisions lets a test act in the middle of a revision.
type hookedRevisions struct {
	barrier.Revisions
	before func(revision int) // is run before a revision is stored
}

func (h *hookedRevisions) AddRevision(ctx context.Context, rev store.NewRevision, now time.Time) error {
	if h.before != nil {
		h.before(rev.Revision)
	}
	return h.Revisions.AddRevision(ctx, rev, now)
}
