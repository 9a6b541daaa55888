package app

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/metrics"
	"muster/dispatcher/internal/store"
	"muster/internal/machine"
	"muster/internal/protocol"
	"muster/internal/task"
)

// measured is what is counted for /metrics beside what the steps count themselves.
// Call newMeasured.
type measured struct {
	began   time.Time
	ready   atomic.Bool
	created atomic.Int64
	commits *metrics.Histogram

	mu      sync.Mutex
	settled map[task.Status]int64
	alarms  map[[2]string]int64 // by severity and kind
}

func newMeasured(now time.Time) *measured {
	return &measured{began: now, settled: map[task.Status]int64{}, alarms: map[[2]string]int64{},
		// A commit waits for the disk: from a fast one to one that is about to fail.
		commits: metrics.NewHistogram(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)}
}

// changed follows the store's change feed.
func (m *measured) changed(changes []store.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		switch c.Kind {
		case store.RunCreated:
			m.created.Add(1)
		case store.TaskMoved:
			if c.Task.State.Settled && !c.From.Settled {
				m.settled[c.Task.State.Status]++
			}
		case store.RevisionReady, store.RunClosed:
		}
	}
}

func (m *measured) alarm(severity protocol.Severity, kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alarms[[2]string{string(severity), kind}]++
}

// isReady says why headquarters takes in nothing yet, or no more; nil when it does.
func (hq *headquarters) isReady(ctx context.Context) error {
	if !hq.measured.ready.Load() {
		return fmt.Errorf("headquarters is starting")
	}
	return hq.store.Health(ctx)
}

// page is what /metrics shows.
func (hq *headquarters) page(ctx context.Context) ([]byte, error) {
	var p metrics.Page
	if err := hq.measureWork(ctx, &p); err != nil {
		return nil, err
	}
	hq.measureSteps(&p)
	hq.measureMachine(&p)
	return p.Bytes(), nil
}

func (hq *headquarters) measureWork(ctx context.Context, p *metrics.Page) error {
	open, err := hq.store.CountOpenTasks(ctx)
	if err != nil {
		return err
	}
	runs, err := hq.store.ListOpenRuns(ctx)
	if err != nil {
		return err
	}
	m := hq.measured
	m.mu.Lock()
	defer m.mu.Unlock()
	var tasks, settled, alarms []metrics.Sample
	for _, status := range task.Statuses() {
		tasks = append(tasks, metrics.Labelled(open[status], "status", string(status)))
		settled = append(settled, metrics.Labelled(m.settled[status], "status", string(status)))
	}
	for kind, n := range m.alarms {
		alarms = append(alarms, metrics.Labelled(n, "severity", kind[0], "kind", kind[1]))
	}
	phases, lag, now := map[protocol.Phase]int{}, 0.0, hq.now()
	for _, run := range runs {
		phases[run.Phase()]++
		if run.BarrierClosedAt.IsZero() {
			lag = max(lag, now.Sub(run.BarrierAt).Seconds())
		}
	}
	p.Gauge("muster_tasks", "Tasks that are not settled, by status.", tasks...)
	p.Counter("muster_tasks_settled_total", "Tasks that were settled, by status.", settled...)
	p.Gauge("muster_runs", "Runs that are not closed, by phase.", metrics.Labelled(phases[protocol.PhaseCollecting], "phase", string(protocol.PhaseCollecting)),
		metrics.Labelled(phases[protocol.PhaseMakeup], "phase", string(protocol.PhaseMakeup)))
	p.Counter("muster_runs_created_total", "Runs that were created.", metrics.Of(m.created.Load()))
	p.Gauge("muster_barrier_lag_seconds", "How long the barrier of an open run is overdue, of the latest; 0 when none is.", metrics.Of(lag))
	p.Counter("muster_alarms_total", "Alarms that were raised, without their recoveries.", alarms...)
	p.Gauge("muster_troubles", "Troubles that need a person and are not over.", metrics.Of(hq.troubles.count()))
	return nil
}

func (hq *headquarters) measureSteps(p *metrics.Page) {
	g, i := hq.grant.Stats(), hq.intake.Stats()
	p.Counter("muster_grants_total", "Attempts that were granted.", metrics.Of(g.Granted))
	p.Counter("muster_grants_resent_total", "Grants that were lost and said again.", metrics.Of(g.Resent))
	p.Counter("muster_grant_denials_total", "Claims that were denied.", metrics.Of(g.Denied))
	p.Counter("muster_claims_malformed_total", "Claims and signs of life that could not be read.", metrics.Of(g.Malformed))
	p.Counter("muster_leases_expired_total", "Leases that ended without an answer.", metrics.Of(g.Expired))
	p.Gauge("muster_claims_waiting", "Claims that wait for a slot or a token.", metrics.Of(g.Waiting))
	p.Gauge("muster_attempts_running", "Attempts that hold a slot.", metrics.Of(g.Running))
	p.Counter("muster_results_total", "Answers of terminals, by what became of them.",
		metrics.Labelled(i.Accepted, "verdict", "accepted"), metrics.Labelled(i.Duplicate, "verdict", "duplicate"),
		metrics.Labelled(i.Stale, "verdict", "stale"), metrics.Labelled(i.Invalid, "verdict", "invalid"),
		metrics.Labelled(i.Unreadable, "verdict", "unreadable"), metrics.Labelled(i.Unjudged, "verdict", "unjudged"))
	p.Counter("muster_receipts_total", "Receipts given for answers, those given again too, by whether they accept.",
		metrics.Labelled(i.Receipts, "accepted", "true"), metrics.Labelled(i.Refusals, "accepted", "false"))
	p.Counter("muster_results_redacted_total", "Answers in which secrets had to be blacked out.", metrics.Of(i.Redacted))
	p.Counter("muster_results_quarantined_total", "Answers that were given up because headquarters broke on them.", metrics.Of(i.Quarantine))
	p.Gauge("muster_uploads_waiting", "Announced results that wait for their turn.", metrics.Of(i.Waiting))
	p.Gauge("muster_uploads_in_flight", "Uploads that were called for.", metrics.Of(i.InFlight))
	p.Counter("muster_uploads_timed_out_total", "Uploads that did not come in time.", metrics.Of(i.TimedOut))
	p.Gauge("muster_terminals_online", "Terminals that are connected.", metrics.Of(hq.presence.Count()))
	p.Counter("muster_messages_refused_total", "Messages that the queue to the broker had no room for.", metrics.Of(hq.queue.Refused()))
	p.Histogram("muster_store_commit_duration_seconds", "How long a commit of the database took, sync to disk included.", hq.measured.commits)
}

func (hq *headquarters) measureMachine(p *metrics.Page) {
	var free []metrics.Sample
	for name, folder := range map[string]string{"data": hq.cfg.DataFolder, "reports": hq.cfg.ReportsFolder} {
		if room, err := machine.Disk(folder); err == nil {
			free = append(free, metrics.Labelled(float64(room.Free), "folder", name))
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	p.Gauge("muster_disk_free_bytes", "Room that is left on the disk of a folder.", free...)
	p.Gauge("muster_build_info", "1; its labels say how this program was built.",
		metrics.Labelled(1, "version", hq.version, "goversion", runtime.Version()))
	p.Gauge("process_start_time_seconds", "Start time of the process since the Unix epoch in seconds.", metrics.Of(float64(hq.measured.began.UnixMilli())/1000))
	p.Gauge("go_goroutines", "Number of goroutines that currently exist.", metrics.Of(runtime.NumGoroutine()))
	p.Gauge("go_memstats_sys_bytes", "Number of bytes obtained from the system.", metrics.Of(float64(memory.Sys)))
}
