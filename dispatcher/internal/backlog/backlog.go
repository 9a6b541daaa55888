// Package backlog withdraws what a store missed once a newer run of the same job
// has a task for it, where the job's policy keeps the newest only.
//
// The store says which tasks these are; a claim for one is refused whether or not
// the backlog came to it. So this is house-keeping: it takes old offers off the
// broker, and lets runs end of which nothing more will come. It keeps nothing,
// and touches nothing before a run's barrier or while an attempt runs.
package backlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
)

const (
	// settleIn is how long a new run's own offers go first: its fan-out of some
	// thousand stores takes a second, and what is withdrawn goes the same way.
	settleIn = 5 * time.Second
	// retryIn is the pause after the store failed, or headquarters panicked over one
	// job, which does not hold up the others.
	retryIn = 5 * time.Second
	// batch bounds what one transaction withdraws: results that come in do not
	// wait longer than some milliseconds for it.
	batch = 200
)

// Tasks is what the backlog withdraws from.
type Tasks interface {
	ListOpenRuns(ctx context.Context) ([]store.Run, error)
	GetRun(ctx context.Context, runID string) (store.Run, error)
	Supersede(ctx context.Context, job string, most int, now time.Time) (int, error)
}

// Config wires the backlog. Every field but Ward is required.
type Config struct {
	Tasks  Tasks
	Now    func() time.Time
	Logger *slog.Logger
	Ward   *quarantine.Ward // is told of a job or run that makes headquarters panic
}

// Backlog is the step. Create it with New; its methods are safe for concurrent
// use.
type Backlog struct {
	cfg Config

	mu   sync.Mutex
	jobs map[string]struct{} // to be looked at
	runs []string            // whose jobs are
	wake chan struct{}

	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// New returns a backlog that is not yet started.
func New(cfg Config) *Backlog {
	return &Backlog{cfg: cfg, jobs: map[string]struct{}{}, wake: make(chan struct{}, 1)}
}

// Start looks at every job that has an open run, since headquarters may have been
// cut off before it could, and then follows the changes. It returns at once.
func (b *Backlog) Start(ctx context.Context) error {
	open, err := b.cfg.Tasks.ListOpenRuns(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the open runs: %w", err)
	}
	for _, r := range open {
		b.look(r.Job, "")
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	b.loops.Go(func() { b.loop(loop) })
	return nil
}

// Stop ends the work and waits for it. It may be called twice, or before Start.
func (b *Backlog) Stop() {
	if b.cancel == nil {
		return
	}
	b.cancel()
	b.loops.Wait()
}

// Changed follows the store's change feed. It returns at once. A task is
// superseded when a newer run is made or, if that is there already, when its own
// run gets its first revision.
func (b *Backlog) Changed(changes []store.Change) {
	for _, c := range changes {
		switch {
		case c.Kind == store.RunCreated:
			b.look(c.Run.Job, "")
		case c.Kind == store.RevisionReady && c.Revision == 1:
			b.look("", c.RunID)
		}
	}
}

func (b *Backlog) look(job, run string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if job != "" {
		b.jobs[job] = struct{}{}
	} else {
		b.runs = append(b.runs, run)
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Backlog) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		if !pause(ctx, settleIn) {
			return
		}
		for _, run := range b.takeRuns() {
			err := b.cfg.Ward.Do(quarantine.AlarmStep, "the backlog of run "+run, func() error { return b.lookAtRun(ctx, run) })
			if err != nil && !b.again(ctx, "", run, err) {
				return
			}
		}
		for _, job := range b.takeJobs() {
			err := b.cfg.Ward.Do(quarantine.AlarmStep, "the backlog of job "+job, func() error { return b.supersede(ctx, job) })
			if err != nil && !b.again(ctx, job, "", err) {
				return
			}
		}
	}
}

func (b *Backlog) lookAtRun(ctx context.Context, run string) error {
	r, err := b.cfg.Tasks.GetRun(ctx, run)
	if err == nil {
		b.look(r.Job, "")
	}
	return err
}

// again asks for the same once more, after a pause.
func (b *Backlog) again(ctx context.Context, job, run string, err error) bool {
	if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
		return false
	}
	if quarantine.Broke(err) {
		time.AfterFunc(retryIn, func() { b.look(job, run) })
		return true
	}
	b.cfg.Logger.Error("what is superseded could not be withdrawn; it is tried again", "job", job, "run_id", run, "error", err)
	b.look(job, run)
	return pause(ctx, retryIn)
}

func (b *Backlog) supersede(ctx context.Context, job string) error {
	all := 0
	for {
		n, err := b.cfg.Tasks.Supersede(ctx, job, batch, b.cfg.Now())
		if all += n; err != nil {
			return err
		}
		if n < batch {
			break
		}
	}
	if all > 0 {
		b.cfg.Logger.Info("older tasks are superseded by a newer run", "job", job, "tasks", all)
	}
	return nil
}

func (b *Backlog) takeRuns() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	runs := b.runs
	b.runs = nil
	return runs
}

func (b *Backlog) takeJobs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := make([]string, 0, len(b.jobs))
	for job := range b.jobs {
		jobs = append(jobs, job)
	}
	clear(b.jobs)
	return jobs
}

// pause returns false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
