package approval

import (
	"context"
	"encoding/json"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/tell"
	"muster/dispatcher/internal/trigger/wish"
	"muster/internal/protocol"
)

// maxListed bounds the approvals that one reply lists.
const maxListed = 100

// List tells what waits: to whoever may decide everything, to others what they
// asked for.
func (d *Desk) List(ctx context.Context, person people.Person) (protocol.Reply, error) {
	pending, err := d.pending(ctx)
	if err != nil {
		return protocol.Reply{}, err
	}
	all := person.May(protocol.VerbApprove) == nil
	var list []protocol.Approval
	for _, a := range pending {
		if len(list) == maxListed {
			break
		}
		if all || a.Requester == person.Name {
			shown := d.shown(ctx, a)
			shown.Request = nil
			list = append(list, shown)
		}
	}
	return tell.Pending(list), nil
}

// Show tells of one approval, whatever became of it.
func (d *Desk) Show(ctx context.Context, approvalID string) (protocol.Reply, error) {
	approval, err := d.get(ctx, approvalID)
	if err != nil {
		return protocol.Reply{}, err
	}
	return tell.Approval(d.shown(ctx, approval)), nil
}

func (d *Desk) shown(ctx context.Context, a store.Approval) protocol.Approval {
	shown := protocol.Approval{ApprovalID: a.ApprovalID, Kind: a.Kind, State: a.State, Requester: a.Requester, ContentHash: a.ContentHash,
		CreatedAt: protocol.At(a.CreatedAt), ExpiresAt: protocol.At(a.ExpiresAt), DecidedAt: protocol.At(a.DecidedAt),
		DecidedBy: a.DecidedBy, RunID: a.RunID, Why: a.Why}
	if a.State == store.ApprovalPending && overdue(a, d.Now()) {
		shown.State = store.ApprovalExpired
	}
	shown.Stores, shown.Request = a.Stores, json.RawMessage(a.Request)
	if a.Kind != store.ApprovalRun {
		if keys, err := ReadKeys(a); err == nil && keys.Now {
			shown.Reason = "at once: every older key is struck out"
		}
		return shown
	}
	switch request, retry, err := wish.Asked(a); {
	case err != nil: // it shows as it is
	case retry != nil:
		parent, err := d.Past.GetRun(ctx, retry.RunID)
		if err == nil {
			shown.Job = parent.Job
		}
		shown.Reason = retry.Reason
	default:
		shown.Job, shown.Reason = request.Job, request.Reason
	}
	return shown
}
