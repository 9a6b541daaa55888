package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
	"muster/internal/task"
)

// cancel withdraws what is open. It needs no de-duplication: a second time
// finds nothing open.
func (t *Trigger) cancel(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.CancelRequest
	if err := t.decode(protocol.VerbCancel, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	echo := protocol.Reply{RequestID: request.RequestID}
	if err := t.inTime(request.Deadline); err != nil {
		return echo, err
	}
	stores := slices.Compact(slices.Sorted(slices.Values(request.Stores)))
	if err := t.checkTargets(ctx, person, request.RunID, stores); err != nil {
		return echo, err
	}
	now, user := t.Now(), person.Name
	cancelled, finished, err := t.Runs.Cancel(ctx, request.RunID, stores, task.ReasonByUser, user, now)
	if err != nil {
		return echo, err
	}
	if request.Reason != "" && len(cancelled) > 0 {
		if err := t.Register.Audit(ctx, user, "cancel_reason", request.RunID, request.Reason, now); err != nil {
			t.Logger.Error("cannot note why a run was cancelled", "run_id", request.RunID, "error", err)
		}
	}
	t.Logger.Info("run cancelled", "run_id", request.RunID, "user", user, "cancelled", len(cancelled), "finished", finished)
	n := len(cancelled)
	reply := protocol.Reply{OK: true, Status: "accepted", RequestID: request.RequestID, RunID: request.RunID, Cancelled: &n, Finished: &finished}
	switch {
	case n == 0:
		reply.Message, reply.MessageZh = "already finished: nothing was left to cancel", "均已结束，没有可取消的任务"
	case finished > 0:
		reply.Message = fmt.Sprintf("%d cancelled, %d were already finished", n, finished)
		reply.MessageZh = fmt.Sprintf("已取消 %d 个，另有 %d 个此前已结束", n, finished)
	default:
		reply.Message, reply.MessageZh = fmt.Sprintf("%d cancelled", n), fmt.Sprintf("已取消 %d 个", n)
	}
	return reply, nil
}

// checkTargets refuses a run that does not exist or that the person could not
// have ordered, and stores that are not among its targets, before anything is
// changed.
func (t *Trigger) checkTargets(ctx context.Context, person people.Person, runID string, stores []string) error {
	run, err := t.Runs.GetRun(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return refuse.UnknownRun(runID)
	}
	if err != nil {
		return err
	}
	if err := t.checkOwner(ctx, person, run); err != nil {
		return err
	}
	strangers, err := t.strangers(ctx, runID, stores)
	if err == nil && len(strangers) > 0 {
		err = refuse.NoTarget(runID, "/stores", strangers)
	}
	return err
}

// strangers are the stores that are no targets of the run.
func (t *Trigger) strangers(ctx context.Context, runID string, stores []string) ([]string, error) {
	var strangers []string
	for _, storeID := range stores {
		tasks, err := t.Tasks.GetTaskOf(ctx, runID, storeID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if len(tasks) == 0 {
			strangers = append(strangers, storeID)
		}
	}
	return strangers, nil
}

// checkOwner refuses a run that is of a job, or has a target, which the person
// may not order.
func (t *Trigger) checkOwner(ctx context.Context, person people.Person, run store.Run) error {
	if person.MayOrder(run.Job) != nil {
		return refuse.NotTheirs(person.Name, run.RunID)
	}
	if person.Everywhere() {
		return nil
	}
	places, err := t.Register.ListPlaces(ctx)
	if err != nil {
		return fmt.Errorf("cannot list stores: %w", err)
	}
	own := 0
	for _, storeID := range person.OwnIDs(places) {
		tasks, err := t.Tasks.GetTaskOf(ctx, run.RunID, storeID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if len(tasks) > 0 {
			own++
		}
	}
	if own < run.Targets {
		return refuse.NotTheirs(person.Name, run.RunID)
	}
	return nil
}
