// Package sim runs headquarters, its broker and its terminals in one bubble of
// virtual time over a network in memory, by a plan that a seed draws: lines that
// break, messages that get lost, doubled and overtaken, programs that are killed,
// clocks that jump. What the participants wrote down is judged by package checker.
//
// The programs are the real ones, with a real database and real files. A kill is
// exact: the folders are copied as they are, the old life goes on for nobody, and
// a new one starts on the copy.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/sim/mesh"
)

// world is one simulation.
type world struct {
	plan   Plan
	folder string
	mesh   *mesh.Mesh
	began  time.Time
	all    sync.WaitGroup // every goroutine of the simulation itself
	lives  sync.WaitGroup // of the programs, the killed ones too
	eye    *history.Writer
	people map[string]*history.Writer
	office *mesh.Host // of the people
	seats  []*seat
	calm   atomic.Bool // messages pass as they are
	hqTurn chan struct{}

	clock sync.Mutex
	last  int64 // of the history's clock, microseconds

	mu      sync.Mutex
	hq      *headquarters // nil: it is dead
	hqLives int
	hqStep  time.Duration // how far its wall clock is set wrong
	hangs   bool          // a run is open on which its time hangs
	waiting map[string][]chan *seat
	failed  error
	early   *early
	owed    []Owed
	counter []chan<- withheld // who waits for a grant to countermand
}

// withheld is an attempt whose grant is kept back.
type withheld struct{ run, store string }

// Played is what a simulation left to be judged.
type Played struct {
	checker.Evidence
	Owed []Owed
}

// Owed is an execution for which its agent, which has its journal since, owes an
// answer: it came to its end, or the agent was killed in the middle of it.
type Owed struct {
	Who     string // the terminal, as in the history
	Task    string
	Attempt int
	At      int64 // of the end or the kill, epoch ms
	Killed  bool
}

// Play plays a plan and returns what is to be judged. It is called in a synctest
// bubble, which fails when a goroutine is left; everything that is written stands
// in the folder. The error says what the simulation itself could not do, or how
// a program ended that should not have.
func Play(ctx context.Context, plan Plan, folder string) (Played, error) {
	wait(time.Until(time.Date(2026, 9, 17, 7, 30, 0, 0, time.UTC))) // no shop's clock shows the bubble's year
	w := newWorld(plan, folder)
	w.run(ctx)
	e, err := w.evidence(ctx)
	w.check(err)
	w.end()
	return e, w.failed
}

func newWorld(plan Plan, folder string) *world {
	w := &world{plan: plan, folder: folder, mesh: mesh.New(plan.Seed), began: time.Now(), people: map[string]*history.Writer{},
		hqTurn: make(chan struct{}, 1), waiting: map[string][]chan *seat{}}
	w.office = w.mesh.Host()
	for _, name := range []string{"history", "jobs"} {
		w.check(os.MkdirAll(filepath.Join(folder, name), 0o700))
	}
	w.eye = w.writer(history.Participant{Who: "eye", Role: history.RoleCollector})
	for i, s := range plan.Terminals {
		w.seats = append(w.seats, w.newSeat(i, s))
	}
	return w
}

func (w *world) writer(who history.Participant) *history.Writer {
	out, err := history.CreateBy(w.now, filepath.Join(w.folder, "history"), who)
	w.check(err)
	return out
}

// now is the history's clock: virtual time, and each line a microsecond at least
// after the one before, so that the order of lines is theirs.
func (w *world) now() (atMs, monoUs int64) {
	w.clock.Lock()
	defer w.clock.Unlock()
	at := time.Now()
	w.last = max(w.last+1, at.UnixMicro())
	return at.UnixMilli(), w.last
}

// check keeps an error of the simulation itself, which fails it.
func (w *world) check(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = errors.Join(w.failed, err)
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// until waits for a moment of the plan.
func (w *world) until(at time.Duration) { wait(time.Until(w.began.Add(at))) }

// happens tells the faults that wait for it, and to whom it happened.
func (w *world) happens(moment string, to *seat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.waiting[moment] {
		fault <- to
	}
	delete(w.waiting, moment)
}

// patience is how long a fault waits for what is to happen first.
const patience = 25 * time.Second

// await waits for a moment, but not for ever, and returns to whom it happened.
func (w *world) await(f Fault) *seat {
	if f.Upon == "" {
		return w.seats[f.Who]
	}
	happened := make(chan *seat, 1)
	w.mu.Lock()
	w.waiting[f.Upon] = append(w.waiting[f.Upon], happened)
	w.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case to := <-happened:
		return to
	case <-timer.C:
		return w.seats[f.Who]
	}
}

// random is a generator of its own for one purpose.
func (w *world) random(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(w.plan.Seed, purpose)) }

// run plays the plan and returns when everything must be over by what was
// promised.
func (w *world) run(ctx context.Context) {
	w.check(w.writeFiles())
	w.startHeadquarters(ctx, filepath.Join(w.folder, "hq0"))
	for _, s := range w.seats {
		s.start(ctx)
	}
	watching, stop := context.WithCancel(ctx)
	var eyes sync.WaitGroup
	eyes.Go(func() { w.watch(watching) })
	eyes.Go(func() { w.looks(watching) })
	w.check(w.eye.Fault("messages", true))
	for i, a := range w.plan.Runs {
		w.all.Go(func() { w.order(ctx, i, a) })
	}
	for _, f := range w.plan.Faults {
		w.all.Go(func() { w.harm(ctx, f) })
	}
	w.all.Go(func() {
		w.until(faultsOver)
		w.calm.Store(true)
		wait(latest)
		w.check(w.eye.Fault("messages", false))
	})
	w.all.Wait()
	wait(max(0, time.Until(w.began.Add(anchored))) + w.longest() + settle + 30*time.Second)
	stop()
	eyes.Wait()
}

// settle is what was promised after the last fault.
const settle = time.Minute

// longest is how long a run stays open that is ordered now.
func (w *world) longest() (d time.Duration) {
	for _, j := range w.plan.Jobs {
		d = max(d, j.Barrier+j.Makeup)
	}
	return d
}

// end stops everything; the bubble sees to it that no goroutine is left.
func (w *world) end() {
	w.mu.Lock()
	hq := w.hq
	w.mu.Unlock()
	for _, s := range w.seats {
		s.stop()
	}
	if hq != nil {
		hq.cancel()
	}
	w.lives.Wait()
	for _, s := range w.seats {
		s.close()
	}
	w.check(w.eye.Close())
	for _, out := range w.people {
		w.check(out.Close())
	}
}

// harm does one fault and undoes what lasts.
func (w *world) harm(ctx context.Context, f Fault) {
	w.until(f.At)
	s := w.await(f)
	name := s.suffers(string(f.Kind))
	switch f.Kind {
	case KillHQ:
		w.killHeadquarters(ctx, f)
		return
	case Countermand: // of whose grant is not known yet, and no line breaks
		w.check(w.eye.Fault("terminal "+string(f.Kind), true))
		w.countermand(ctx)
		w.check(w.eye.Fault("terminal "+string(f.Kind), false))
		return
	case Step:
		name = "step"
	case CutEverything:
		name = "cut everything"
	default:
	}
	w.check(w.eye.Fault(name, true))
	s.suffer(ctx, f)
	if f.Kind == Step {
		w.step(f)
	}
	if f.Kind == CutEverything {
		for _, s := range w.seats {
			s.host().Cut()
		}
		w.office.Cut()
	}
	w.check(w.eye.Fault(name, false))
}

// owes notes executions that a terminal is to answer for.
func (w *world) owes(s *seat, killed bool, list ...execution) {
	at, _ := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range list {
		w.owed = append(w.owed, Owed{Who: s.seat.name(), Task: e.task, Attempt: e.attempt, At: at, Killed: killed})
	}
}

// forgets: with its journal a terminal loses what it would have answered for.
func (w *world) forgets(s *seat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owed = slices.DeleteFunc(w.owed, func(o Owed) bool { return o.Who == s.seat.name() })
}

// step sets headquarters' clock on the wall wrong for a while. While it is dead
// its clock is right.
func (w *world) step(f Fault) {
	w.mu.Lock()
	if w.hq != nil && w.hangs {
		w.hqStep = f.By
	}
	w.mu.Unlock()
	wait(f.For)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hqStep = 0
}

func (w *world) writeFiles() error {
	register := "store_id,name,time_zone,labels\n"
	for _, id := range append([]string{nobody}, w.plan.Stores...) {
		register += id + ",门店 " + id + ",Asia/Shanghai,region=east\n"
	}
	files := map[string]string{"stores.csv": register,
		"jobs/in.json":  `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
		"jobs/out.json": `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["marker"]}`}
	for _, j := range w.plan.Jobs {
		files["jobs/"+j.Name+".yaml"] = fmt.Sprintf(`name: %s
version: 1
title: %s
title_zh: 模拟
input_schema: in.json
output_schema: out.json
policy: {attempts: %d, run_timeout: %v, lease: %v, barrier: %v, makeup: %v, late: %s, retry_interrupted: %t, retry_first: 1s, retry_max: 8s}
columns:
  - {name: marker, pointer: /marker, title: Marker, title_zh: 标记}
  - {name: sold, pointer: /sold, title: Sold, title_zh: 销量, type: integer, aggregate: [sum, mean, min, p50, p95, max, distinct, top, histogram, count]}
  - {name: price, pointer: /price, title: Price, title_zh: 价格, type: number, aggregate: [sum, mean]}
  - {name: day, pointer: /day, title: Day, title_zh: 日期, type: date, aggregate: [min, max, count]}
  - {name: at, pointer: /at, title: At, title_zh: 时间, type: time, aggregate: [min, max]}
  - {name: open, pointer: /open, title: Open, title_zh: 营业, type: bool, aggregate: [count]}
  - {name: till, pointer: /till, title: Till, title_zh: 收银机, type: text, aggregate: [distinct, top]}
`, j.Name, j.Name, j.Attempts, j.RunTimeout, j.Lease, j.Barrier, j.Makeup, j.Late, j.RetryInterrupted)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
