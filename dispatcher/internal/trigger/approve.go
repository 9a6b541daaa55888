package trigger

import (
	"context"
	"errors"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// approve takes the word of a second person.
func (t *Trigger) approve(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.ApproveRequest
	if err := t.decode(protocol.VerbApprove, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	echo := protocol.Reply{RequestID: request.RequestID, ApprovalID: request.ApprovalID}
	if err := errors.Join(t.wantID(request.RequestID), t.inTime(request.Deadline)); err != nil {
		return echo, err
	}
	reply, err := t.approvals.Decide(ctx, person, request)
	reply.RequestID, reply.ApprovalID = request.RequestID, request.ApprovalID
	return reply, err
}

// AskKeys asks for the word of a second person on a rotation of headquarters' signing
// keys, in the name of actor, such as "host:root"; now strikes the older ones out at
// once. What is approved is done by Config.Approved. While one that actor asked for
// in the same way waits, it is returned.
func (t *Trigger) AskKeys(ctx context.Context, actor string, now bool) (approvalID, contentHash string, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.stopped {
		return "", "", refuse.ShuttingDown()
	}
	asked, err := t.approvals.AskKeys(ctx, actor, now)
	return asked.ApprovalID, asked.ContentHash, err
}
