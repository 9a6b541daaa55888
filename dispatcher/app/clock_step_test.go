package app_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
)

// stepping is headquarters on a wall clock that the test sets.
type stepping struct {
	*headquarters
	off atomic.Int64
}

func setupStepping(t *testing.T, stores []string, policy map[string]string, tune func(*config.Config)) *stepping {
	t.Helper()
	hq := &stepping{headquarters: setup(t, config.TransportEmbedded, stores, func(cfg *config.Config) {
		writeJob(t, cfg.JobsFolder, "probe", policy)
		if tune != nil {
			tune(cfg)
		}
	})}
	hq.stop()
	ctx, cancel := context.WithCancel(t.Context())
	hq.cancel, hq.ended = cancel, make(chan error, 1)
	ready := make(chan string, 1)
	go func() {
		hq.ended <- app.Run(ctx, hq.cfg, app.Options{Version: "test", Logger: logger(t), Ready: func(addr string) { ready <- addr },
			Wall: func() time.Time { return time.Now().Round(0).Add(time.Duration(hq.off.Load())) }})
	}()
	select {
	case hq.addr = <-ready:
	case err := <-hq.ended:
		hq.cancel = nil
		t.Fatalf("headquarters did not start: %v", err)
	}
	return hq
}

func (hq *stepping) set(off time.Duration) { hq.off.Store(int64(off)) }

// state asks for a run's state; headquarters looks at the wall with each request.
func (tech *technician) state(runID string) protocol.RunStateReport {
	tech.hq.t.Helper()
	reply := tech.ask(protocol.VerbStatus, fmt.Sprintf(`{"runId":%q}`, runID))
	if !reply.OK || reply.State == nil {
		tech.hq.t.Fatalf("status of run %s: %+v", runID, reply)
	}
	return *reply.State
}

// awaitState asks until the state fits.
func (tech *technician) awaitState(what, runID string, fits func(protocol.RunStateReport) bool) {
	tech.hq.t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(patience)
	for !fits(tech.state(runID)) {
		select {
		case <-again.C:
		case <-deadline:
			tech.hq.t.Fatalf("%s: the state is %+v", what, tech.state(runID))
		}
	}
}

// isOff says that headquarters' time is off this machine's by so much.
func isOff(by time.Duration) func(protocol.RunStateReport) bool {
	return func(s protocol.RunStateReport) bool { return s.At.Sub(time.Now().Add(by)).Abs() < 10*time.Second }
}

// bothWays runs a test for a clock that is set ahead, and back.
func bothWays(t *testing.T, test func(t *testing.T, by time.Duration)) {
	for _, by := range []time.Duration{26 * time.Hour, -26 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			test(t, by)
		})
	}
}

// between fails unless what lasted from a moment until now took so long.
func between(t *testing.T, what string, from time.Time, least, most time.Duration) {
	t.Helper()
	if took := time.Since(from); took < least || took > most {
		t.Errorf("%s after %s, not within %s and %s", what, took, least, most)
	}
}

// TestASetClockEndsNoLease, nor keeps the one of a terminal that fell silent: its
// attempt fails when its lease is over, and one that works on delivers.
func TestASetClockEndsNoLease(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, by time.Duration) {
		hq := setupStepping(t, []string{"SILENT", "WORKS"}, map[string]string{"lease": "3s", "attempts": "1"}, nil)
		granted := make(chan struct{}, 2)
		observe := func(kind string, _ protocol.Order) {
			if kind == string(protocol.OrderGrant) {
				granted <- struct{}{}
			}
		}
		hq.terminal("SILENT", fleet.Options{Observe: observe}) // it says that it begins, and no more
		hq.terminal("WORKS", fleet.Options{Observe: observe, Delay: 2 * time.Second, Execute: value("1")})
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":60}`)
		<-granted
		begun := time.Now()
		<-granted
		for _, off := range []time.Duration{by, -by, by} {
			hq.set(off)
			if state := tech.state(run.RunID); !isOff(0)(state) || state.Tasks[task.Running] != 2 {
				t.Fatalf("the clock is set by %s, and the run is %+v", off, state)
			}
		}
		summary := tech.summary(run.RunID, 1)
		between(t, "the lease ended", begun, 2900*time.Millisecond, 8*time.Second)
		if summary.Counts != (protocol.Counts{Succeeded: 1, Failed: 1}) {
			t.Errorf("counts %+v", summary.Counts)
		}
		for _, row := range hq.report(summary).Stores {
			if row.StoreID == "SILENT" && row.Reason != task.ReasonLeaseExpired || row.Evidence.StartedAt.Before(row.Evidence.GrantedAt.Time) {
				t.Errorf("%+v", row)
			}
		}
		tech.awaitState("the new time", run.RunID, isOff(by))
	})
}

// TestASetClockMovesNoRetry: however often its terminal asks, the next attempt comes
// when the pause is over.
func TestASetClockMovesNoRetry(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, by time.Duration) {
		hq := setupStepping(t, []string{"A"}, map[string]string{"retry_first": "2s", "retry_max": "2s"}, nil)
		executed := make(chan int, 2)
		terminal := hq.terminal("A", fleet.Options{Execute: func(_ protocol.Offer, attempt int) fleet.Reply {
			executed <- attempt
			if attempt == 1 {
				return fleet.Reply{Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: "no"}}
			}
			return fleet.Reply{Result: []byte(`{"value":1}`)}
		}})
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":60}`)
		<-executed
		failed := time.Now()
		tech.awaitState("the failure", run.RunID, func(s protocol.RunStateReport) bool { return s.Tasks[task.Failed] == 1 })
		hq.set(by)
		if state := tech.state(run.RunID); !isOff(0)(state) {
			t.Errorf("headquarters' time is %s while a retry waits", state.At)
		}
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		deadline := time.After(patience)
		for waits := true; waits; {
			select {
			case <-executed:
				waits = false
			case <-deadline:
				t.Fatal("there is no second attempt")
			case <-again.C:
				for _, id := range terminal.Tasks() {
					_ = terminal.Claim(id)
				}
			}
		}
		between(t, "the second attempt began", failed, time.Second, 7*time.Second) // 2 s, half of it jitter
		if summary := tech.summary(run.RunID, 1); summary.Counts != (protocol.Counts{Succeeded: 1}) {
			t.Errorf("counts %+v", summary.Counts)
		}
		tech.awaitState("the new time", run.RunID, isOff(by))
	})
}

// TestMakeUpWindowsEndByTheNewTime: they are days long and follow the clock (ADR
// 0014). Set back, or within the window, a store that comes late delivers; set
// beyond it, the run closes and nobody works for nothing.
func TestMakeUpWindowsEndByTheNewTime(t *testing.T) {
	t.Parallel()
	for by, taken := range map[time.Duration]bool{-26 * time.Hour: true, 30 * time.Minute: true, 26 * time.Hour: false} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			hq := setupStepping(t, []string{"A", "LATE"}, nil, nil)
			hq.terminal("A", fleet.Options{Execute: value("1")})
			tech := hq.technician("wang")
			run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":1,"makeupSeconds":3600}`)
			tech.summary(run.RunID, 1)
			hq.set(by)
			set := time.Now()
			tech.awaitState("the new time", run.RunID, isOff(by))
			if !taken {
				tech.awaitState("the end of the window", run.RunID, func(s protocol.RunStateReport) bool { return s.Phase == protocol.PhaseClosed })
				between(t, "the window ended", set, 0, 5*time.Second)
			}
			var executed atomic.Int32
			synced := make(chan struct{}, 1)
			hq.terminal("LATE", fleet.Options{
				Execute: func(protocol.Offer, int) fleet.Reply {
					executed.Add(1)
					return fleet.Reply{Result: []byte(`{"value":2}`)}
				},
				Observe: func(kind string, _ protocol.Order) {
					if kind == string(protocol.OrderSync) {
						synced <- struct{}{}
					}
				}})
			<-synced
			if !taken {
				if executed.Load() != 0 {
					t.Error("it was executed after the end of the window")
				}
				return
			}
			report := hq.report(tech.summary(run.RunID, 2))
			for _, row := range report.Stores {
				if row.Outcome != task.OutcomeSucceeded || row.Evidence.StartedAt.Before(row.Evidence.GrantedAt.Time) || row.Late != (row.StoreID == "LATE") {
					t.Errorf("%+v", row)
				}
			}
		})
	}
}

// TestASetClockFillsNoBudget (I6): the burst is spent, all is over, the new time is
// taken over, and the next run finds what the time since then allows.
func TestASetClockFillsNoBudget(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, by time.Duration) {
		const burst, perSecond = 3, 1
		stores := []string{"A", "B", "C"}
		hq := setupStepping(t, stores, nil, func(cfg *config.Config) {
			cfg.Admission.GrantBurst, cfg.Admission.GrantsPerSecond = burst, perSecond
		})
		var mu sync.Mutex
		var grants []time.Time
		for _, store := range stores {
			hq.terminal(store, fleet.Options{Execute: value("1"), Observe: func(kind string, o protocol.Order) {
				if kind == string(protocol.OrderGrant) {
					mu.Lock()
					grants = append(grants, time.Now())
					mu.Unlock()
				}
			}})
		}
		tech := hq.technician("wang")
		for i, off := range []time.Duration{by, by} {
			run := tech.run(fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":"all","barrierSeconds":60}`, i))
			if summary := tech.summary(run.RunID, 1); summary.Counts != (protocol.Counts{Succeeded: len(stores)}) {
				t.Errorf("counts %+v", summary.Counts)
			}
			hq.set(off)
			tech.awaitState("the new time", run.RunID, isOff(off))
		}
		mu.Lock()
		defer mu.Unlock()
		slices.SortFunc(grants, time.Time.Compare)
		if len(grants) != 2*len(stores) {
			t.Fatalf("%d grants", len(grants))
		}
		const slack = 500 * time.Millisecond // of a busy machine, between a grant and its sight
		for i, from := range grants {
			for k, to := range grants[i:] {
				if most := burst + perSecond*(to.Sub(from)+slack).Seconds(); float64(k+1) > most {
					t.Fatalf("%d grants in %s at %d a second and %d at once", k+1, to.Sub(from), perSecond, burst)
				}
			}
		}
	})
}
