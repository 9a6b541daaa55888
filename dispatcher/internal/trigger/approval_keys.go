package trigger

import (
	"context"
	"fmt"
	"time"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// KeysRequest is what an approval of the kind keys is for.
type KeysRequest struct {
	// Now strikes every older key out at once: one was stolen.
	Now bool `json:"now,omitempty"`
}

// requestID makes one asking of each way wait at a time.
func (r KeysRequest) requestID() string {
	if r.Now {
		return "~keys-now"
	}
	return "~keys"
}

// ReadKeys reads what an approval of the kind keys is for.
func ReadKeys(a store.Approval) (KeysRequest, error) {
	var request KeysRequest
	if a.Kind != store.ApprovalKeys {
		return request, fmt.Errorf("approval %s is for no keys but a %s", a.ApprovalID, a.Kind)
	}
	if err := protocol.Decode([]byte(a.Request), protocol.MaxPayloadBytes, &request); err != nil {
		return request, fmt.Errorf("cannot read what approval %s is for: %s", a.ApprovalID, err.Error()) // no refusal of who approves
	}
	return request, nil
}

// AskKeys asks for the word of a second person on a rotation of headquarters'
// signing keys, in the name of actor, such as "host:root"; now strikes the older
// ones out at once. What is approved is done by Config.Approved. While one that
// actor asked for in the same way waits, it is returned.
func (t *Trigger) AskKeys(ctx context.Context, actor string, now bool) (approvalID, contentHash string, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case t.stopped:
		return "", "", refuse.ShuttingDown()
	case t.Approved == nil:
		return "", "", fmt.Errorf("cannot ask for new keys: headquarters has no identity")
	}
	request, at := KeysRequest{Now: now}, t.Now()
	text, err := protocol.Encode(request)
	if err != nil {
		return "", "", err
	}
	id := newApprovalID(at)
	hash, err := digest(map[string]string{"kind": store.ApprovalKeys, "approvalId": id, "requester": actor, "request": string(text)})
	if err != nil {
		return "", "", err
	}
	asked, _, err := t.Register.AddApproval(ctx, store.Approval{ApprovalID: id, Kind: store.ApprovalKeys, Requester: actor,
		RequestID: request.requestID(), RequestHash: hash, ContentHash: hash, Request: string(text), CreatedAt: at, ExpiresAt: at.Add(approvalTime)}, at)
	if err != nil {
		return "", "", err
	}
	t.Logger.Info("approval asked for", "approval_id", asked.ApprovalID, "user", actor, "kind", asked.Kind, "at_once", now)
	return asked.ApprovalID, asked.ContentHash, nil
}

// approveKeys acts first: what fails waits on, and what was done before a crash
// could note it is not done again, see Config.Approved.
func (t *Trigger) approveKeys(ctx context.Context, person people.Person, approval store.Approval, now time.Time) (protocol.Reply, error) {
	if t.Approved == nil {
		return protocol.Reply{}, fmt.Errorf("cannot do what approval %s is for: headquarters has no identity", approval.ApprovalID)
	}
	approval.DecidedBy = person.Name
	if err := t.Approved(ctx, approval); err != nil {
		t.Logger.Error("what was approved cannot be done; it waits on", "approval_id", approval.ApprovalID, "user", person.Name, "error", err)
		return protocol.Reply{}, refuse.NotDone(approval, err)
	}
	done := t.rotated(approval, false)
	approval, err := t.Register.DecideApproval(ctx, approval.ApprovalID, person.Name, store.ApprovalApproved, done.Message, now)
	if err != nil {
		return protocol.Reply{}, err
	}
	t.Logger.Warn("keys rotated", "approval_id", approval.ApprovalID, "requester", approval.Requester, "user", person.Name, "done", done.Message,
		"hint", "back up the identity folder: an older copy lacks this key")
	return done, nil
}

// rotated tells which keys an approval made.
func (t *Trigger) rotated(approval store.Approval, duplicate bool) protocol.Reply {
	reply := protocol.Reply{OK: true, Status: "accepted", Duplicate: &duplicate, Message: "the keys are rotated", MessageZh: "密钥已更换"}
	if approval.Why != "" {
		reply.Message = approval.Why
	}
	if t.Rotated == nil {
		return reply
	}
	if made, known := t.Rotated(approval.ApprovalID); known {
		from := made.From.UTC().Format(time.RFC3339)
		reply.Message = fmt.Sprintf("new key %s signs from %s", made.KeyID, from)
		reply.MessageZh = fmt.Sprintf("新密钥 %s 自 %s 起用于签名", made.KeyID, from)
	}
	return reply
}
