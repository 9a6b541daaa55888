package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/dispatcher/internal/trigger/tell"
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
		if err := t.World.Audit(ctx, user, "cancel_reason", request.RunID, request.Reason, now); err != nil {
			t.Logger.Error("cannot note why a run was cancelled", "run_id", request.RunID, "error", err)
		}
	}
	t.Logger.Info("run cancelled", "run_id", request.RunID, "user", user, "cancelled", len(cancelled), "finished", finished)
	reply := tell.Cancelled(request.RunID, len(cancelled), finished)
	reply.RequestID = request.RequestID
	return reply, nil
}

// checkTargets refuses a run that does not exist or that the person could not
// have ordered, and stores that are not among its targets, before anything is
// changed.
func (t *Trigger) checkTargets(ctx context.Context, person people.Person, runID string, stores []string) error {
	run, err := t.World.GetRun(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return refuse.UnknownRun(runID)
	}
	if err != nil {
		return err
	}
	if err := t.checkOwner(ctx, person, run); err != nil {
		return err
	}
	return t.wishes.CheckTargets(ctx, runID, stores)
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
	places, err := t.World.ListPlaces(ctx)
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
