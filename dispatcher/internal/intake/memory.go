package intake

import (
	"context"
	"fmt"
	"sync"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/task"
)

const (
	// maxRuns and maxTasks bound what is remembered; what is not is read from the
	// store.
	maxRuns  = 256
	maxTasks = 16_384
	// maxInput bounds the input of a task that is remembered, in bytes.
	maxInput = 4 << 10
)

// frozen is what never changes of a run. Whether its barrier is closed has to be read.
type frozen struct {
	policy  job.Policy
	columns *job.Extractor
	run     store.Run // what offers are made from
}

func freeze(run store.Run) frozen {
	return frozen{policy: run.Policy, columns: job.NewExtractor(run.Columns),
		run: store.Run{RunID: run.RunID, JobVersion: run.JobVersion, OrderedAt: run.OrderedAt}}
}

// offerHash is the hash of a task's offer.
func (f frozen) offerHash(t store.Task) string { return transport.OfferOf(t, f.run).Hash() }

// memory spares reading, for each answer, what was told before: the runs as they were
// made, and the tasks that run now by the change feed. The feed follows the commit, so
// a task may have ended meanwhile: the commit of its answer is what decides. The zero
// value is ready; it is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	runs  map[string]frozen
	tasks map[string]store.Task
}

func (m *memory) run(runID string) (frozen, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, known := m.runs[runID]
	return f, known
}

func (m *memory) keepRun(runID string, f frozen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil || len(m.runs) >= maxRuns {
		m.runs = map[string]frozen{}
	}
	m.runs[runID] = f
}

func (m *memory) task(taskID string) (store.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, known := m.tasks[taskID]
	return t, known
}

// follow takes the changes of one commit.
func (m *memory) follow(changes []store.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		switch {
		case c.Kind == store.RunClosed:
			delete(m.runs, c.RunID)
		case c.Kind != store.TaskMoved:
		case c.Task.State.Status != task.Running || len(c.Task.Input) > maxInput:
			delete(m.tasks, c.Task.TaskID)
		case len(m.tasks) < maxTasks || m.tasks[c.Task.TaskID].TaskID != "":
			if m.tasks == nil {
				m.tasks = map[string]store.Task{}
			}
			m.tasks[c.Task.TaskID] = *c.Task
		}
	}
}

// frozenRun returns what never changes of a run.
func (i *Intake) frozenRun(ctx context.Context, runID string) (frozen, error) {
	if f, known := i.memory.run(runID); known {
		return f, nil
	}
	run, err := i.cfg.Tasks.GetRun(ctx, runID)
	if err != nil {
		return frozen{}, fmt.Errorf("cannot read run %s for a result: %w", runID, err)
	}
	f := freeze(run)
	i.memory.keepRun(runID, f)
	return f, nil
}
