// Package barrier ends what a run waits for: it closes each run's barrier at
// the deadline, or earlier when everything is settled, judges every target,
// keeps the judgement as a revision, adds revisions as accepted answers come
// late, publishes the report files and the retained summary of each, and closes
// the run when the make-up window is over.
//
// It never moves a task and never changes a judgement: the outcome at the
// barrier stays, and a target's final outcome moves once, forward. It waits by
// one timer, holds up no change of the store, and keeps nothing that the store
// does not hold: after a restart the same revisions become the same files.
package barrier

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// quiet is how long no late answer must come before a revision is made:
	// stores that return together share one.
	quiet = 2 * time.Second
	// longest bounds the wait for quiet, counted from the first late answer.
	longest = 15 * time.Second
)

// Lists names the runs to work on, and those whose summary is said again.
type Lists interface {
	ListOpenRuns(ctx context.Context) ([]store.Run, error)
	ListRecentlyClosedRuns(ctx context.Context) ([]store.Run, error)
}

// Runs is what the barrier asks of runs.
type Runs interface {
	Lists
	GetRun(ctx context.Context, runID string) (store.Run, error)
	CountTasks(ctx context.Context, runID string) (map[task.Status]int, int, error)
	CloseRun(ctx context.Context, runID string, reason task.Reason, now time.Time) ([]store.Task, error)
}

// Snapshots gives pinned views of a run. CloseBarrier marks the barrier closed
// and pins what then was.
type Snapshots interface {
	CloseBarrier(ctx context.Context, runID string, now time.Time) (Snapshot, error)
	Snapshot(ctx context.Context, runID string) (Snapshot, error)
}

// Snapshot is one pinned view: every task of the run with what is known of it,
// by store id. It must be closed.
type Snapshot interface {
	Candidates() iter.Seq2[store.Candidate, error]
	Close() error
}

// Revisions stores revisions and reads them back.
type Revisions interface {
	LateChanges(ctx context.Context, runID string) (int, error)
	AddRevision(ctx context.Context, rev store.NewRevision, now time.Time) error
	LoadRows(ctx context.Context, runID string, revision int) iter.Seq2[store.OutcomeRow, error]
	LoadBefore(ctx context.Context, runID string, asOf time.Time) (store.Revision, []store.OutcomeRow, error)
}

// Publications keeps which revisions are published as which files. Reissue gives
// the newest another number, above highest.
type Publications interface {
	ListRevisions(ctx context.Context, runID string) ([]store.Revision, error)
	UnpublishedRevisions(ctx context.Context) ([]store.Revision, error)
	MarkPublished(ctx context.Context, runID string, revision int, files []protocol.ManifestFile, now time.Time) error
	Reissue(ctx context.Context, runID string, highest int, now time.Time) (int, error)
}

// Reporter builds, checks and writes a revision's report. Rows are the JSON of
// one protocol.StoreRow each, by store id, and may be iterated again.
type Reporter interface {
	Build(head protocol.ReportHead, rows, previous iter.Seq2[json.RawMessage, error]) (protocol.ReportHead, error)
	Check(head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error
	Formats() []protocol.FileFormat
	Write(w io.Writer, ext string, head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error
}

// Deps are what the barrier works with.
type Deps struct {
	Runs         Runs
	Snapshots    Snapshots
	Revisions    Revisions
	Publications Publications
	Retries      Retries
	Reporter     Reporter
	Sender       *transport.Sender
	Now          func() time.Time
	Log          *slog.Logger
	// Alarm is told once when trouble begins that needs a person, and with a
	// nil error when it is over. kind is a level of an alarm's topic. It may be
	// nil, and is called from many goroutines.
	Alarm func(kind, runID string, err error)
	// Published is called when the files of a revision are out; may be nil. It returns
	// at once.
	Published func()
	// Ward is told of a change, or of what the loop does with a run, that makes
	// headquarters panic; may be nil.
	Ward *quarantine.Ward
	// Lost tells for how long headquarters did not run since its start, frozen with
	// its machine; may be nil.
	Lost func() time.Duration
}

// Config says where reports go and how long late answers are gathered.
type Config struct {
	Folder   string         // of the report files; they wait while it is missing
	Location *time.Location // headquarters' zone; nil is UTC
	Quiet    time.Duration  // without late answers before a revision; 0 is 2 s
	Longest  time.Duration  // from the first late answer to a revision; 0 is 15 s
}

// Barrier is the step. Create it with New; it is safe for concurrent use.
type Barrier struct {
	deps Deps
	cfg  Config

	mu    sync.Mutex
	inbox []func() // run by the loop, which alone touches runs and clock
	wake  chan struct{}

	runs  map[string]*run
	clock clock

	judging chan struct{} // a slot for each run that is judged at a time
	writing chan struct{} // one revision is written at a time
	telling chan struct{} // one summary is said again at a time

	cancel context.CancelFunc
	work   sync.WaitGroup
}

// New returns a barrier that is not yet started.
func New(deps Deps, cfg Config) *Barrier {
	if cfg.Location == nil {
		cfg.Location = time.UTC
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = quiet
	}
	if cfg.Longest == 0 {
		cfg.Longest = longest
	}
	if deps.Alarm == nil {
		deps.Alarm = func(string, string, error) {}
	}
	if deps.Lost == nil {
		deps.Lost = func() time.Duration { return 0 }
	}
	if deps.Published == nil {
		deps.Published = func() {}
	}
	// Two judged at a time keep a short run from waiting behind a long one;
	// each holds one of the store's readers.
	return &Barrier{deps: deps, cfg: cfg, wake: make(chan struct{}, 1), runs: map[string]*run{},
		judging: make(chan struct{}, 2), writing: make(chan struct{}, 1), telling: make(chan struct{}, 1)}
}

// Start takes up every run that is not closed and every revision that is not
// published, and says again the newest summaries of the runs that are open or were
// closed last: headquarters may have died before it said them, and the broker may
// have lost them. A barrier whose deadline has passed closes at once. A report folder
// that cannot be opened is told. It returns once deadlines are kept.
func (b *Barrier) Start(ctx context.Context) error {
	if folder, err := openFolder(b.cfg.Folder); err == nil {
		folder.close()
	} else {
		b.deps.Log.Error("no report can be published yet", "error", err)
	}
	if err := b.rebuild(ctx); err != nil {
		return err
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	b.work.Go(func() { b.loop(loop) })
	return nil
}

// Stop ends all work and waits for it. It may be called twice, or before Start.
func (b *Barrier) Stop() {
	if b.cancel == nil {
		return
	}
	b.cancel()
	b.work.Wait()
}

// Refresh says again what Start does, for a broker that was reached anew.
func (b *Barrier) Refresh(ctx context.Context) error {
	closed, err := b.deps.Runs.ListRecentlyClosedRuns(ctx)
	if err != nil {
		return err
	}
	b.post(func() {
		b.know(closed)
		for _, r := range b.runs {
			r.asked++
			r.voice.notUntil = time.Time{}
			b.arrange(r)
		}
	})
	return nil
}

// Changed takes changes from the store's feed and returns at once.
func (b *Barrier) Changed(changes []store.Change) {
	kept := slices.Clone(changes)
	b.post(func() {
		for i := range kept {
			c := &kept[i]
			_ = b.deps.Ward.Do(quarantine.AlarmStep, "what the barrier notes of run "+c.RunID, func() error { b.apply(c); return nil })
		}
	})
}

func (b *Barrier) post(f func()) {
	b.mu.Lock()
	b.inbox = append(b.inbox, f)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Barrier) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.inbox
	b.inbox = nil
	return list
}
