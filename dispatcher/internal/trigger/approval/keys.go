package approval

import (
	"context"
	"fmt"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/dispatcher/internal/trigger/tell"
	"muster/dispatcher/internal/trigger/wish"
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
// ones out at once. What is approved is done by Do. While one that actor asked for
// in the same way waits, it is returned.
func (d *Desk) AskKeys(ctx context.Context, actor string, now bool) (store.Approval, error) {
	if d.Do == nil {
		return store.Approval{}, fmt.Errorf("cannot ask for new keys: headquarters has no identity")
	}
	request, at := KeysRequest{Now: now}, d.Now()
	text, err := protocol.Encode(request)
	if err != nil {
		return store.Approval{}, err
	}
	id := newID(at)
	hash, err := wish.Digest(map[string]string{"kind": store.ApprovalKeys, "approvalId": id, "requester": actor, "request": string(text)})
	if err != nil {
		return store.Approval{}, err
	}
	asked, _, err := d.Approvals.AddApproval(ctx, store.Approval{ApprovalID: id, Kind: store.ApprovalKeys, Requester: actor,
		RequestID: request.requestID(), RequestHash: hash, ContentHash: hash, Request: string(text), CreatedAt: at, ExpiresAt: at.Add(patience)}, at)
	if err != nil {
		return store.Approval{}, err
	}
	d.Logger.Info("approval asked for", "approval_id", asked.ApprovalID, "user", actor, "kind", asked.Kind, "at_once", now)
	return asked, nil
}

// approveKeys acts first: what fails waits on, and what was done before a crash
// could note it is not done again, see Do.
func (d *Desk) approveKeys(ctx context.Context, person people.Person, approval store.Approval, now time.Time) (protocol.Reply, error) {
	if d.Do == nil {
		return protocol.Reply{}, fmt.Errorf("cannot do what approval %s is for: headquarters has no identity", approval.ApprovalID)
	}
	approval.DecidedBy = person.Name
	if err := d.Do(ctx, approval); err != nil {
		d.Logger.Error("what was approved cannot be done; it waits on", "approval_id", approval.ApprovalID, "user", person.Name, "error", err)
		return protocol.Reply{}, refuse.NotDone(approval, err, d.Wishes.Zone)
	}
	done := d.rotated(approval, false)
	approval, err := d.Approvals.DecideApproval(ctx, approval.ApprovalID, person.Name, store.ApprovalApproved, done.Message, now)
	if err != nil {
		return protocol.Reply{}, err
	}
	d.Logger.Warn("keys rotated", "approval_id", approval.ApprovalID, "requester", approval.Requester, "user", person.Name, "done", done.Message,
		"hint", "back up the identity folder: an older copy lacks this key")
	return done, nil
}

// rotated tells which keys an approval made, as far as that is known.
func (d *Desk) rotated(approval store.Approval, duplicate bool) protocol.Reply {
	var made identity.Rotated
	if d.Rotated != nil {
		made, _ = d.Rotated(approval.ApprovalID)
	}
	return tell.Rotated(approval, made, duplicate, d.Wishes.Zone)
}
