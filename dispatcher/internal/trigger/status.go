package trigger

import (
	"context"
	"errors"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/dispatcher/internal/trigger/tell"
	"muster/internal/protocol"
	"muster/internal/task"
)

func (t *Trigger) status(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.StatusRequest
	if err := t.decode(protocol.VerbStatus, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	switch {
	case request.Approvals:
		return t.approvals.List(ctx, person)
	case request.ApprovalID != "":
		return t.approvals.Show(ctx, request.ApprovalID)
	}
	run, err := t.World.GetRun(ctx, request.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return protocol.Reply{}, refuse.UnknownRun(request.RunID)
	}
	if err != nil {
		return protocol.Reply{}, err
	}
	state, err := t.state(ctx, run)
	if err != nil {
		return protocol.Reply{}, err
	}
	reply := tell.State(t.Sender.Topics(), state)
	if request.StoreID == "" {
		return reply, nil
	}
	reply.Task, err = t.record(ctx, run, request.StoreID)
	return reply, err
}

func (t *Trigger) state(ctx context.Context, run store.Run) (*protocol.RunStateReport, error) {
	counts, _, err := t.Tasks.CountTasks(ctx, run.RunID)
	if err != nil {
		return nil, err
	}
	online, err := t.Tasks.CountOnline(ctx, run.RunID)
	if err != nil {
		return nil, err
	}
	return &protocol.RunStateReport{
		Meta:      t.Sender.Meta(),
		RunID:     run.RunID,
		ParentRun: run.ParentRun,
		Job:       run.Job,
		Phase:     run.Phase(),
		Targets:   run.Targets,
		Tasks:     counts,
		Online:    online,
		Waiting:   t.Waiting(run.RunID),
		BarrierAt: protocol.At(run.BarrierAt),
		MakeupTo:  protocol.At(run.MakeupUntil),
		Revision:  run.Revision,
	}, nil
}

// record is the task record of one store; of several tasks, the first that is
// still open, or else the last.
func (t *Trigger) record(ctx context.Context, run store.Run, storeID string) (*protocol.Record, error) {
	tasks, err := t.Tasks.GetTaskOf(ctx, run.RunID, storeID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, refuse.NoTarget(run.RunID, "/storeId", []string{storeID})
	}
	chosen := tasks[len(tasks)-1]
	for _, one := range tasks {
		if !one.State.Settled {
			chosen = one
			break
		}
	}
	record := &protocol.Record{
		TaskID:   chosen.TaskID,
		ParentID: chosen.RunID,
		StoreID:  chosen.StoreID,
		Type:     chosen.Type,
		Input:    chosen.Input,
		Status:   chosen.State.Status,
		Attempt:  chosen.State.Attempt,
		Deadline: chosen.Deadline.UnixMilli(),
	}
	if chosen.State.Attempt == 0 || chosen.State.Status == task.Running {
		return record, nil
	}
	attempt, err := t.Tasks.GetResult(ctx, chosen.TaskID, chosen.State.Attempt)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	record.Result, record.Error = attempt.Result, attempt.Failure
	return record, nil
}
