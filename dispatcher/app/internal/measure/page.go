package measure

import (
	"context"
	"runtime"
	"time"

	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/metrics"
	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/machine"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Tasks is what the store has that is not over.
type Tasks interface {
	CountOpenTasks(ctx context.Context) (map[task.Status]int, error)
	ListOpenRuns(ctx context.Context) ([]store.Run, error)
}

// Sources are what the page is made of.
type Sources struct {
	Meter    *Meter
	Tasks    Tasks
	Grant    *grant.Admission
	Intake   *intake.Intake
	Presence *presence.Presence
	Queue    *transport.Queue
	Troubles func() int
	Folders  map[string]string // by the name that the page has for them
	Version  string
	Now      func() time.Time
}

// Page is what /metrics shows now.
func (s Sources) Page(ctx context.Context) ([]byte, error) {
	var p metrics.Page
	if err := s.work(ctx, &p); err != nil {
		return nil, err
	}
	s.steps(&p)
	s.machine(&p)
	return p.Bytes(), nil
}

func (s Sources) work(ctx context.Context, p *metrics.Page) error {
	open, err := s.Tasks.CountOpenTasks(ctx)
	if err != nil {
		return err
	}
	runs, err := s.Tasks.ListOpenRuns(ctx)
	if err != nil {
		return err
	}
	m := s.Meter
	m.mu.Lock()
	defer m.mu.Unlock()
	var tasks, settled []metrics.Sample
	for _, status := range task.Statuses() {
		tasks = append(tasks, metrics.Labelled(open[status], "status", string(status)))
		settled = append(settled, metrics.Labelled(m.settled[status], "status", string(status)))
	}
	phases, lag, now := map[protocol.Phase]int{}, 0.0, s.Now()
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
	p.Counter("muster_alarms_total", "Alarms that were raised, without their recoveries.", m.raised()...)
	p.Gauge("muster_troubles", "Troubles that need a person and are not over.", metrics.Of(s.Troubles()))
	return nil
}

func (s Sources) steps(p *metrics.Page) {
	g, i := s.Grant.Stats(), s.Intake.Stats()
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
	p.Gauge("muster_terminals_online", "Terminals that are connected.", metrics.Of(s.Presence.Count()))
	p.Counter("muster_messages_refused_total", "Messages that the queue to the broker had no room for.", metrics.Of(s.Queue.Refused()))
	p.Histogram("muster_store_commit_duration_seconds", "How long a commit of the database took, sync to disk included.", s.Meter.commits)
}

func (s Sources) machine(p *metrics.Page) {
	var free []metrics.Sample
	for name, folder := range s.Folders {
		if room, err := machine.Disk(folder); err == nil {
			free = append(free, metrics.Labelled(float64(room.Free), "folder", name))
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	p.Gauge("muster_disk_free_bytes", "Room that is left on the disk of a folder.", free...)
	p.Gauge("muster_build_info", "1; its labels say how this program was built.",
		metrics.Labelled(1, "version", s.Version, "goversion", runtime.Version()))
	p.Gauge("process_start_time_seconds", "Start time of the process since the Unix epoch in seconds.", metrics.Of(float64(s.Meter.began.UnixMilli())/1000))
	p.Gauge("go_goroutines", "Number of goroutines that currently exist.", metrics.Of(runtime.NumGoroutine()))
	p.Gauge("go_memstats_sys_bytes", "Number of bytes obtained from the system.", metrics.Of(float64(memory.Sys)))
}
