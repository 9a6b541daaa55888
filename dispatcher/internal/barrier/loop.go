package barrier

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// rebuild fills the clock from the store.
func (b *Barrier) rebuild(ctx context.Context) error {
	open, err := b.deps.Runs.ListOpenRuns(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the open runs: %w", err)
	}
	for i := range open {
		r := newRun(&open[i])
		b.runs[r.id] = r
		if _, r.open, err = b.deps.Runs.CountTasks(ctx, r.id); err != nil {
			return fmt.Errorf("cannot count the tasks of run %s: %w", r.id, err)
		}
		if r.revision == 0 {
			continue
		}
		late, err := b.deps.Revisions.LateChanges(ctx, r.id)
		if err != nil {
			return fmt.Errorf("cannot count the late answers of run %s: %w", r.id, err)
		}
		if late > 0 {
			r.lateFirst = b.deps.Now().Add(-b.cfg.Longest) // they waited long enough
			r.lateLast = r.lateFirst
		}
	}
	closed, err := b.deps.Runs.ListRecentlyClosedRuns(ctx)
	if err != nil {
		return err
	}
	b.know(closed)
	unmerged, err := b.deps.Retries.ListUnmerged(ctx)
	if err != nil {
		return err
	}
	for i := range unmerged {
		if id := unmerged[i].RunID; b.runs[id] == nil {
			b.runs[id] = newRun(&unmerged[i])
		}
	}
	waiting, err := b.deps.Publications.UnpublishedRevisions(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the unpublished revisions: %w", err)
	}
	for _, rev := range waiting {
		r := b.runs[rev.RunID]
		if r == nil {
			older, err := b.deps.Runs.GetRun(ctx, rev.RunID)
			if err != nil {
				return fmt.Errorf("cannot get run %s: %w", rev.RunID, err)
			}
			r = newRun(&older)
			b.runs[r.id] = r
		}
		r.published = min(r.published, rev.Revision-1)
	}
	for _, r := range b.runs {
		r.asked++
	}
	return nil
}

// know takes up closed runs that were let go, to be looked at one after the other.
func (b *Barrier) know(closed []store.Run) {
	at := b.deps.Now().Add(aside)
	for i := range closed {
		if id := closed[i].RunID; b.runs[id] == nil {
			b.runs[id] = newRun(&closed[i])
			b.runs[id].againAt = at
			at = at.Add(apart)
		}
	}
}

// loop alone touches runs and clock, and does nothing that takes long.
func (b *Barrier) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, r := range b.runs {
		b.alone(r, func() { b.arrange(r) })
	}
	var last reading
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-b.wake:
		}
		timer.Stop()
		if wait := b.deps.Ward.Turn("the deadlines of runs", nap, func() time.Duration { return b.turn(ctx, &last) }); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// turn notes what happened, starts what is due, and tells how long nothing more is, 0
// when nothing waits.
func (b *Barrier) turn(ctx context.Context, last *reading) time.Duration {
	b.follow(last)
	for _, f := range b.take() {
		_ = b.deps.Ward.Do(quarantine.AlarmStep, "what the barrier notes of a run", func() error { f(); return nil })
	}
	wait := time.Until(last.deaf)
	if wait <= 0 || len(b.clock) == 0 {
		b.startDue(ctx)
		last.deafSince = time.Time{}
	}
	if len(b.clock) == 0 {
		return 0
	}
	return max(min(max(b.clock[0].due.Sub(b.deps.Now()), 1), nap), wait)
}

// alone does what is about one run in the loop. If it panics, that is told, and the
// run looked at later: it must not stay in the way of the others.
func (b *Barrier) alone(r *run, do func()) {
	err := b.deps.Ward.Do(quarantine.AlarmStep, "what run "+r.id+" needs next", func() error { do(); return nil })
	if err != nil {
		r.index = slices.Index(b.clock, r)
		b.clock.set(r, b.deps.Now().Add(lastDelay), true)
	}
}

// reading is headquarters' time, and the monotonic clock beside it.
type reading struct {
	now, mono time.Time
	lost      time.Duration // for which headquarters did not run
	deaf      time.Time     // until when what was said meanwhile is taken in, by mono
	deafSince time.Time     // since when nothing that is due was started for it; zero: it was
}

// follow lets what is only waited out, such as the quiet before a revision, last
// as long as it would have when headquarters' time stepped since the last reading.
func (b *Barrier) follow(last *reading) {
	r := reading{b.deps.Now(), time.Now(), b.deps.Lost(), last.deaf, last.deafSince}
	if r.lost > last.lost {
		if r.deafSince.IsZero() {
			r.deafSince = r.mono
		}
		r.deaf = earliest(r.mono.Add(hearing), r.deafSince.Add(longestHearing))
		b.deps.Log.Warn("headquarters did not run for a while; deadlines wait until what came meanwhile is taken in", "lost", (r.lost - last.lost).String())
	}
	step := r.now.Sub(last.now) - r.mono.Sub(last.mono)
	first := last.mono.IsZero()
	*last = r
	if first || step.Abs() < nap {
		return
	}
	for _, known := range b.runs {
		known.shift(step)
		b.alone(known, func() { b.arrange(known) })
	}
}

// apply notes one change of the store.
func (b *Barrier) apply(c *store.Change) {
	r := b.runs[c.RunID]
	if r == nil {
		if c.Kind != store.RunCreated || c.Run == nil {
			return
		}
		r = newRun(c.Run)
		b.runs[r.id] = r
	}
	switch c.Kind {
	case store.RunCreated:
	case store.TaskMoved:
		b.applyMove(r, c)
	case store.RevisionReady:
		r.revision = max(r.revision, c.Revision)
	case store.RunClosed:
		r.closed = true
	}
	b.arrange(r)
}

func (b *Barrier) applyMove(r *run, c *store.Change) {
	if c.Task == nil || c.From.Settled || !c.Task.State.Settled {
		return
	}
	r.open--
	r.moves++
	if c.Late && c.Task.State.Status != task.Cancelled {
		r.lateSeen++
		r.lateLast = b.deps.Now()
		if r.lateFirst.IsZero() {
			r.lateFirst = r.lateLast
		}
	}
}

// arrange puts the run where it belongs in the clock, or lets it go when
// nothing is left to do.
func (b *Barrier) arrange(r *run) {
	what, due := r.next(&b.cfg)
	waiting := what != none
	if publish, at := r.unpublished(); publish && (!waiting || at.Before(due)) {
		waiting, due = true, at
	}
	if say, at := r.unsaid(); say && (!waiting || at.Before(due)) {
		waiting, due = true, at
	}
	b.clock.set(r, due, waiting)
	if r.closed && r.index < 0 && !r.state.busy && !r.output.busy && !r.voice.busy {
		delete(b.runs, r.id)
	}
}

func (b *Barrier) startDue(ctx context.Context) {
	now := b.deps.Now()
	for len(b.clock) > 0 && !b.clock[0].due.After(now) {
		r := b.clock[0]
		b.alone(r, func() { b.start(ctx, r, now) })
	}
}

// start starts all that is due of a run.
func (b *Barrier) start(ctx context.Context, r *run, now time.Time) {
	if what, at := r.next(&b.cfg); what != none && !at.After(now) {
		b.startErrand(ctx, r, &r.state, "barrier_stuck", b.stateWork(ctx, r, what))
	}
	if say, at := r.unsaid(); say && !at.After(now) {
		b.startErrand(ctx, r, &r.voice, "summary_not_published", b.voiceWork(ctx, r))
	}
	if publish, at := r.unpublished(); publish && !at.After(now) {
		b.startErrand(ctx, r, &r.output, "report_not_published", b.outputWork(ctx, r))
	}
	b.arrange(r)
}

// startErrand does the work in its own goroutine and tells the loop; work
// returns what the loop is to note. Failed work is tried again. The second
// failure in a row raises one alarm, and another word when it is over: one that
// the next attempt mends, as at a start before the broker is reached, needs
// nobody.
func (b *Barrier) startErrand(ctx context.Context, r *run, e *errand, alarm string, work func() (func(), error)) {
	e.busy = true
	failures := e.failures
	b.work.Go(func() {
		note, err := b.survive(r.id, failures, work)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		if err != nil {
			b.deps.Log.Warn("work on a run failed and will be tried again", "run_id", r.id, "alarm", alarm, "error", err)
		}
		if begins, ends := err != nil && failures == 1, err == nil && failures > 1; begins || ends {
			_ = b.deps.Ward.Do(quarantine.AlarmStep, "the alarm "+alarm+" of run "+r.id, func() error { b.deps.Alarm(alarm, r.id, err); return nil })
		}
		b.post(func() {
			defer b.arrange(r)
			e.busy = false
			if err != nil {
				e.failed(b.deps.Now())
			} else {
				e.succeeded()
				note()
			}
		})
	})
}

// survive turns a panic of the work into its failure: one run that headquarters
// cannot judge or write must not end it, nor hold up the others. The stack is
// logged the first time.
func (b *Barrier) survive(runID string, failures int, work func() (func(), error)) (note func(), err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		err = panicked(cause)
		if failures == 0 {
			b.deps.Log.Error("work on a run panicked", "run_id", runID, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	return work()
}

func panicked(cause any) error { return fmt.Errorf("headquarters panicked: %v", cause) }
