package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"muster/edge-agent/internal/executor"
	"muster/internal/protocol"
	"muster/internal/task"
)

const maxAttempts = 3

// faults is what befalls one run of the simulation.
type faults struct {
	seed                   uint64
	loss, twice, replay    float64 // of each message, both ways
	delay                  time.Duration
	crashes, breaks, tasks int
	cancels, parallel      int
	signed                 bool
}

func drawFaults(t *rapid.T) faults {
	return faults{
		seed:    rapid.Uint64().Draw(t, "seed"),
		loss:    rapid.Float64Range(0, 0.5).Draw(t, "loss"),
		twice:   rapid.Float64Range(0, 0.5).Draw(t, "twice"),
		replay:  rapid.Float64Range(0, 0.1).Draw(t, "replay"),
		delay:   time.Duration(rapid.IntRange(0, 20_000).Draw(t, "delay_ms")) * time.Millisecond,
		crashes: rapid.IntRange(0, 4).Draw(t, "crashes"),
		breaks:  rapid.IntRange(0, 4).Draw(t, "breaks"),
		tasks:   rapid.IntRange(1, 5).Draw(t, "tasks"),
		cancels: rapid.IntRange(0, 1).Draw(t, "cancels"),

		parallel: rapid.IntRange(1, 3).Draw(t, "parallel"),
		signed:   rapid.Bool().Draw(t, "signed"),
	}
}

// I3, I9, I12: whatever is lost, doubled, replayed or cut off, an attempt runs
// at most once, and when the faults stop everything is settled.
func TestChaosRunsNoAttemptTwiceAndSettlesEverything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFaults(rt)
		var verdict error
		synctest.Test(t, func(t *testing.T) { verdict = simulate(t, f) })
		if verdict != nil {
			rt.Fatal(verdict)
		}
	})
}

// hq is a headquarters over a bad network.
type hq struct {
	*bench
	faults

	mu    sync.Mutex
	rng   *rand.Rand
	tasks map[string]*hqTask
	up    bool
	calm  bool
	good  map[string]int
}

type hqTask struct {
	id     string
	state  task.State
	lease  time.Time
	stored map[int]string // hash of each attempt's answer
	taken  map[int]bool   // accepted
	value  string
}

func simulate(t *testing.T, f faults) error {
	h := &hq{faults: f, rng: rand.New(rand.NewPCG(f.seed, 1)), tasks: map[string]*hqTask{}, good: map[string]int{}}
	h.bench = newBench(t, nil)
	if f.signed {
		h.identify()
	}
	h.cfg.MaxParallel = f.parallel
	h.jobs[protocol.JobVersion{Type: "count", Version: 1}] = h.marking(h.work)
	// The work needs to know its task: wrap it by order.
	inner := h.jobs[protocol.JobVersion{Type: "count", Version: 1}]
	h.jobs[protocol.JobVersion{Type: "count", Version: 1}] = executorFunc(
		func(ctx context.Context, o executor.Order) (executor.Output, error) {
			o.Input = json.RawMessage(`"` + o.TaskID + `"`)
			return inner.Run(ctx, o)
		})
	h.wire.take = h.fromAgent
	for i := range f.tasks {
		id := fmt.Sprintf("t%d", i)
		h.tasks[id] = &hqTask{id: id, state: task.State{Status: task.Pending}, stored: map[int]string{}, taken: map[int]bool{}}
	}
	h.boot()
	h.linkUp()
	h.storm()
	err := h.settle()
	h.kill()
	sleep(time.Hour) // let every message arrive nowhere
	return errors.Join(err, h.judge())
}

func (h *hq) boot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start()
}

// storm lets crashes, breaks of the link and cancels happen over ten minutes.
func (h *hq) storm() {
	events := make([]func(), 0, 10)
	for range h.crashes {
		events = append(events, func() {
			h.linkDown()
			h.kill()
			h.boot()
			h.linkUp()
		})
	}
	for range h.breaks {
		events = append(events, func() {
			h.linkDown()
			sleep(time.Duration(h.float() * float64(90*time.Second)))
			h.linkUp()
		})
	}
	for range h.cancels {
		events = append(events, func() { h.cancel("t0") })
	}
	h.rng.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, event := range events {
		h.tick(time.Duration(h.float() * float64(2*time.Minute)))
		event()
	}
	h.tick(2 * time.Minute)
}

// tick lets time pass while leases end and open offers are published again.
func (h *hq) tick(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		sleep(time.Second)
		h.mu.Lock()
		for _, t := range h.tasks {
			if t.state.Status == task.Running && time.Now().After(t.lease) {
				h.fail(t)
			}
		}
		again := time.Now().Unix()%20 == 0
		h.mu.Unlock()
		if again {
			h.offerAll()
		}
	}
}

// settle stops the faults and waits for the end of everything.
func (h *hq) settle() error {
	h.mu.Lock()
	h.calm = true
	h.mu.Unlock()
	h.linkDown()
	h.linkUp()
	for range 60 {
		h.tick(time.Minute)
		if h.settled() {
			h.linkDown()
			h.linkUp() // the last sync lets stale results go
			h.tick(2 * time.Minute)
			return nil
		}
	}
	return errors.New("not everything is settled an hour after the faults stopped")
}

func (h *hq) settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tasks {
		if !t.state.Settled {
			return false
		}
	}
	return true
}

func (h *hq) judge() error {
	var errs []error
	seen := map[string]bool{}
	executions := map[string]int{}
	for _, mark := range h.marks() {
		if seen[mark] {
			errs = append(errs, fmt.Errorf("I3: %s was executed twice", mark))
		}
		seen[mark] = true
		id, _, _ := strings.Cut(mark, "/")
		executions[id]++
	}
	for id, t := range h.tasks {
		if executions[id] > maxAttempts {
			errs = append(errs, fmt.Errorf("%s was executed %d times", id, executions[id]))
		}
		if h.crashes == 0 && h.good[id] > 1 {
			errs = append(errs, fmt.Errorf("%s was done well %d times", id, h.good[id]))
		}
		if t.state.Status == task.Succeeded && !strings.Contains(t.value, id) {
			errs = append(errs, fmt.Errorf("%s answered %q", id, t.value))
		}
	}
	if n := h.answers(); n != 0 {
		errs = append(errs, fmt.Errorf("%d answers are left in the outbox", n))
	}
	return errors.Join(errs...)
}

// work takes up to 25 s, fails one time in four, and answers small or large.
func (h *hq) work(ctx context.Context, input json.RawMessage, _ time.Time) (json.RawMessage, error) {
	timer := time.NewTimer(time.Duration(h.float() * float64(25*time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.calm && h.rng.IntN(4) == 0 {
		return nil, errors.New("out of paper")
	}
	h.good[strings.Trim(string(input), `"`)]++
	padding := strings.Repeat("x", h.rng.IntN(2*protocol.InlineLimit))
	return fmt.Appendf(nil, `{"task":%s,"padding":%q}`, input, padding), nil
}

func (h *hq) float() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.Float64()
}
