package app_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

// reload has headquarters read a configuration.
func (hq *headquarters) reload(tune func(*config.Config)) {
	hq.t.Helper()
	cfg := hq.cfg
	tune(&cfg)
	hq.next.Store(&cfg)
	hq.hangup <- syscall.SIGHUP
}

// TestLimitsOfAReloadBoundWhatIsAskedNext: what a run may ask for, what is forecast, and
// from how many stores on a second person must agree.
func TestLimitsOfAReloadBoundWhatIsAskedNext(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"007", "1E5"}, func(cfg *config.Config) { cfg.Admission.GrantsPerSecond = 100 })
	wang := hq.technician("wang")
	const wish = `{"job":"probe","stores":"all","maxRunning":50,"dryRun":true}`
	if before := wang.ask(protocol.VerbRun, wish); !before.OK || before.Forecast.GrantsPerSecond != 100 || before.Forecast.NeedsApproval {
		t.Fatalf("before: %+v", before)
	}
	hq.reload(func(cfg *config.Config) { cfg.Admission.MaxRunning = 10 })
	var reply protocol.Reply
	hq.until(func() bool { reply = wang.ask(protocol.VerbRun, wish); return !reply.OK })
	if reply.Message != "maxRunning is 50; it must be 0 to 10" {
		t.Errorf("with a lower bound: %+v", reply)
	}
	hq.reload(func(cfg *config.Config) { cfg.Admission.GrantsPerSecond, cfg.Approval.OverStores = 3, 1 })
	hq.until(func() bool { reply = wang.ask(protocol.VerbRun, wish); return reply.OK })
	if reply.Forecast.GrantsPerSecond != 3 || !reply.Forecast.NeedsApproval {
		t.Errorf("with other limits: %+v", reply.Forecast)
	}
}

// until asks again and again, as often as one user may.
func (hq *headquarters) until(done func() bool) {
	hq.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(250 * time.Millisecond) {
		if time.Now().After(deadline) {
			hq.t.Fatal("the reload has no effect")
		}
	}
}

// TestReloadsBesideWork reads limits, jobs, stores and users again and again while
// technicians order and terminals answer; nothing of it is lost.
func TestReloadsBesideWork(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"007", "1E5"}, nil)
	for _, store := range []string{"007", "1E5"} {
		hq.terminal(store, fleet.Options{Execute: value("1")})
	}
	wang, end := hq.technician("wang"), make(chan struct{})
	var reloads sync.WaitGroup
	n := 0
	reloads.Go(func() {
		for ; ; n++ {
			cfg := hq.cfg
			cfg.Admission.MaxRunning, cfg.Collection.InFlight = 10+n, 1+n%9
			hq.next.Store(&cfg)
			select {
			case hq.hangup <- syscall.SIGHUP:
			case <-end:
				return
			}
		}
	})
	for i := range 8 {
		reply := wang.run(fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":"all"}`, i))
		if summary := wang.summary(reply.RunID, 1); summary.Counts != (protocol.Counts{Succeeded: 2}) {
			t.Errorf("run %d: %+v", i, summary.Counts)
		}
	}
	close(end)
	reloads.Wait()
	if n < 5 {
		t.Errorf("%d reloads", n)
	}
}
