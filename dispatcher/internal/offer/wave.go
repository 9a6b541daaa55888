package offer

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
)

const (
	// madeAhead bounds the offers of one run that are made before its commit, about a
	// KiB each: as many as can be made meanwhile.
	madeAhead = 8192
	// rush bounds how long others wait for the offers of a new run to be out: those of
	// five thousand terminals take less, signed and on two cores that they share.
	rush = 500 * time.Millisecond
)

// wave is the offers of a run that is being created. They are made while the disk is
// busy with it, and published from memory once it is committed.
type wave struct {
	run   *run
	tasks []store.NewTask
	made  []atomic.Pointer[transport.Outbound] // of the first tasks
	next  atomic.Int64                         // that nobody makes yet
	ended atomic.Bool                          // the lanes make what is left

	left atomic.Int64 // tasks that are not dealt with
	once sync.Once
	out  chan struct{} // closed when all are, or when it has taken too long
}

// Ahead begins to make the offers of a run that is about to be created, of those that
// somebody waits for, and tells nobody. It returns at once. over is to be called when
// it is known whether the run was created; the change feed then has them published.
func (o *Offers) Ahead(planned store.Run, tasks []store.NewTask) (over func(created bool)) {
	w := &wave{run: newRun(planned), tasks: tasks, made: make([]atomic.Pointer[transport.Outbound], min(len(tasks), madeAhead)), out: make(chan struct{})}
	w.left.Store(int64(len(tasks)))
	o.mu.Lock()
	o.waves[planned.RunID] = w
	o.mu.Unlock()
	for range max(1, runtime.GOMAXPROCS(0)-1) { // the database has the other one
		go func() { // ends with the commit
			_ = o.cfg.Ward.Do(quarantine.AlarmStep, "making the offers of run "+planned.RunID, func() error { o.make(w); return nil })
		}()
	}
	return func(created bool) {
		if w.ended.Store(true); !created {
			o.take(planned.RunID)
		}
	}
}

// take takes a wave out, nil when there is none.
func (o *Offers) take(runID string) *wave {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.waves[runID]
	delete(o.waves, runID)
	return w
}

// make makes offers until all are made or the run is committed. One that cannot be
// made says so when it is published.
func (o *Offers) make(w *wave) {
	for i := int(w.next.Add(1)) - 1; i < len(w.made) && !w.ended.Load(); i = int(w.next.Add(1)) - 1 {
		t := w.run.Task(w.tasks[i])
		if !o.wanted(t.StoreID, t.TaskID) {
			continue
		}
		if out, err := o.frame(t, w.run); err == nil {
			w.made[i].Store(&out)
		}
	}
}

// begin takes the wave of a run that is committed now, if there is one. What moves from
// now on is looked at again: the wave has its tasks as they were created.
func (o *Offers) begin(runID string) *wave {
	w := o.take(runID)
	if w == nil {
		return nil
	}
	w.ended.Store(true)
	for _, l := range o.lanes {
		l.beginList()
	}
	o.rush.Store(w)
	time.AfterFunc(rush, w.end)
	return w
}

// publishWave is publishList of the tasks of a run that was just created.
func (o *Offers) publishWave(ctx context.Context, w *wave) error {
	defer o.endList()
	for i, planned := range w.tasks {
		job := work{store: planned.StoreID, task: planned.TaskID, wave: w}
		if i < len(w.made) {
			job.made = w.made[i].Swap(nil)
		}
		t := w.run.Task(planned)
		job.listed = &t
		if err := o.pass(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// dealt notes that a task of the wave was dealt with.
func (w *wave) dealt() {
	if w != nil && w.left.Add(-1) == 0 {
		w.end()
	}
}

func (w *wave) end() { w.once.Do(func() { close(w.out) }) }

// Rush returns once the offers of the run that was created last are out, or after half
// a second, or when ctx ends. Who has a lower claim to the processor waits here: a store
// that does not know of its task loses more by a wait than one that asks for it.
func (o *Offers) Rush(ctx context.Context) {
	w := o.rush.Load()
	if w == nil {
		return
	}
	select {
	case <-w.out:
		o.rush.CompareAndSwap(w, nil)
	case <-ctx.Done():
	}
}
