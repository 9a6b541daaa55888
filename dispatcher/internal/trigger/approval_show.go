package trigger

import (
	"context"
	"encoding/json"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// maxListed bounds the approvals that one reply lists.
const maxListed = 100

// listApprovals tells what waits: to whoever may decide everything, to others
// what they asked for.
func (t *Trigger) listApprovals(ctx context.Context, person people.Person) (protocol.Reply, error) {
	pending, err := t.pending(ctx)
	if err != nil {
		return protocol.Reply{}, err
	}
	all := person.May(protocol.VerbApprove) == nil
	reply := protocol.Reply{OK: true, Status: "accepted"}
	for _, a := range pending {
		if len(reply.Approvals) == maxListed {
			break
		}
		if all || a.Requester == person.Name {
			shown := t.shown(ctx, a)
			shown.Request = nil
			reply.Approvals = append(reply.Approvals, shown)
		}
	}
	if len(reply.Approvals) == 0 {
		reply.Message, reply.MessageZh = "nothing waits for approval", "没有待批准的请求"
	}
	return reply, nil
}

func (t *Trigger) showApproval(ctx context.Context, approvalID string) (protocol.Reply, error) {
	approval, err := t.getApproval(ctx, approvalID)
	if err != nil {
		return protocol.Reply{}, err
	}
	shown := t.shown(ctx, approval)
	return protocol.Reply{OK: true, Status: "accepted", ApprovalID: approvalID, RunID: approval.RunID, Approval: &shown}, nil
}

func (t *Trigger) shown(ctx context.Context, a store.Approval) protocol.Approval {
	shown := protocol.Approval{ApprovalID: a.ApprovalID, Kind: a.Kind, State: a.State, Requester: a.Requester, ContentHash: a.ContentHash,
		CreatedAt: protocol.At(a.CreatedAt), ExpiresAt: protocol.At(a.ExpiresAt), DecidedAt: protocol.At(a.DecidedAt),
		DecidedBy: a.DecidedBy, RunID: a.RunID, Why: a.Why}
	if a.State == store.ApprovalPending && isOverdue(a, t.Now()) {
		shown.State = store.ApprovalExpired
	}
	shown.Stores, shown.Request = a.Stores, json.RawMessage(a.Request)
	if a.Kind != store.ApprovalRun {
		if keys, err := ReadKeys(a); err == nil && keys.Now {
			shown.Reason = "at once: every older key is struck out"
		}
		return shown
	}
	switch request, retry, err := asked(a); {
	case err != nil: // it shows as it is
	case retry != nil:
		parent, err := t.Runs.GetRun(ctx, retry.RunID)
		if err == nil {
			shown.Job = parent.Job
		}
		shown.Reason = retry.Reason
	default:
		shown.Job, shown.Reason = request.Job, request.Reason
	}
	return shown
}
