package intake

import "muster/dispatcher/internal/store"

// The bounds of what is remembered.
const (
	MaxRuns  = maxRuns
	MaxTasks = maxTasks
	MaxInput = maxInput
)

// Remembered counts the runs and tasks that are remembered.
func (i *Intake) Remembered() (runs, tasks int) {
	i.memory.mu.Lock()
	defer i.memory.mu.Unlock()
	return len(i.memory.runs), len(i.memory.tasks)
}

// Remember keeps a run as if an answer of it had come.
func (i *Intake) Remember(run store.Run) { i.memory.keepRun(run.RunID, freeze(run)) }
