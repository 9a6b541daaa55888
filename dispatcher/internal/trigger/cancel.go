package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// cancel withdraws what is open. It needs no de-duplication: a second time
// finds nothing open.
func (t *Trigger) cancel(ctx context.Context, user string, payload []byte) (protocol.Reply, error) {
	var request protocol.CancelRequest
	if err := t.decode(protocol.VerbCancel, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	echo := protocol.Reply{RequestID: request.RequestID}
	stores := slices.Compact(slices.Sorted(slices.Values(request.Stores)))
	if err := t.checkTargets(ctx, request.RunID, stores); err != nil {
		return echo, err
	}
	now := t.Now()
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

// checkTargets refuses a run that does not exist, and stores that are not
// among its targets, before anything is changed.
func (t *Trigger) checkTargets(ctx context.Context, runID string, stores []string) error {
	if _, err := t.Runs.GetRun(ctx, runID); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return unknownRun(runID)
		}
		return err
	}
	var strangers []string
	for _, storeID := range stores {
		tasks, err := t.Tasks.GetTaskOf(ctx, runID, storeID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if len(tasks) == 0 {
			strangers = append(strangers, storeID)
		}
	}
	if len(strangers) > 0 {
		return noTarget(runID, "/stores", strangers)
	}
	return nil
}
