package approval

import (
	"context"
	"errors"
	"strings"
	"time"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/dispatcher/internal/trigger/tell"
	"muster/dispatcher/internal/trigger/wish"
	"muster/internal/protocol"
)

// hostActor stands before the name of whoever asks on headquarters' own
// machine.
const hostActor = "host:"

// Decide takes the word of a second person. It needs no de-duplication: what is
// decided stays so, and the same word again gets the same answer.
func (d *Desk) Decide(ctx context.Context, person people.Person, request protocol.ApproveRequest) (protocol.Reply, error) {
	approval, err := d.get(ctx, request.ApprovalID)
	switch {
	case err != nil:
		return protocol.Reply{}, err
	case onePerson(person.Name, approval.Requester):
		return protocol.Reply{}, refuse.OwnRequest(approval)
	case approval.ContentHash != request.ContentHash:
		return protocol.Reply{}, refuse.OtherContent(approval)
	}
	// The requester's own requests wait, and so do other approvers: whoever
	// comes second reads what the first one did.
	defer d.Locks.Lock(approval.Requester)()
	return d.decide(ctx, person, request)
}

// onePerson compares names as people do. Whoever asks on headquarters' machine
// is the user of that name.
func onePerson(a, b string) bool {
	return strings.EqualFold(strings.TrimPrefix(a, hostActor), strings.TrimPrefix(b, hostActor))
}

func (d *Desk) get(ctx context.Context, approvalID string) (store.Approval, error) {
	approval, err := d.Approvals.GetApproval(ctx, approvalID)
	if errors.Is(err, store.ErrNotFound) {
		return approval, refuse.UnknownApproval(approvalID)
	}
	return approval, err
}

// decide makes the one move of an approval, or says what was decided before.
func (d *Desk) decide(ctx context.Context, person people.Person, request protocol.ApproveRequest) (protocol.Reply, error) {
	approval, err := d.get(ctx, request.ApprovalID)
	if err != nil {
		return protocol.Reply{}, err
	}
	now := d.Now()
	if approval.State == store.ApprovalPending && overdue(approval, now) {
		return d.expire(ctx, approval, now)
	}
	if approval.State != store.ApprovalPending {
		return d.decided(ctx, approval, request.Decision)
	}
	var reply protocol.Reply
	switch {
	case request.Decision == protocol.DecisionReject:
		reply, err = d.reject(ctx, person, approval, request.Reason, now)
	case approval.Kind == store.ApprovalRun:
		reply, err = d.approveRun(ctx, person, approval)
	default:
		reply, err = d.approveKeys(context.WithoutCancel(ctx), person, approval, now)
	}
	if !errors.Is(err, store.ErrDecided) {
		return reply, err
	}
	if approval, err = d.get(ctx, request.ApprovalID); err != nil {
		return protocol.Reply{}, err
	}
	return d.decided(ctx, approval, request.Decision)
}

// approveRun expands the request anew and creates the run, unless that would no
// longer be what was asked for.
func (d *Desk) approveRun(ctx context.Context, person people.Person, approval store.Approval) (protocol.Reply, error) {
	w, err := d.Wishes.Of(approval)
	if err != nil {
		return protocol.Reply{}, err
	}
	plan, err := d.expandAgain(ctx, approval, w)
	var refusal *protocol.Error
	if errors.As(err, &refusal) {
		return d.makeVoid(ctx, person, approval, refusal.Message)
	}
	if err != nil {
		return protocol.Reply{}, err
	}
	hash, err := plan.ContentHash()
	if err != nil {
		return protocol.Reply{}, err
	}
	if hash != approval.ContentHash {
		return d.makeVoid(ctx, person, approval, "the job, the stores, the input or the settings are not those that were asked for")
	}
	content, err := w.Content()
	if err != nil {
		return protocol.Reply{}, err
	}
	reply, err := d.Create(ctx, w.ID, plan, store.Request{User: approval.Requester, RequestID: approval.RequestID, ContentHash: approval.RequestHash, Members: content.Members},
		Given{ApprovalID: approval.ApprovalID, By: person.Name})
	if err == nil {
		d.tell(ctx, approval, reply)
	}
	return reply, err
}

// expandAgain also asks whether the requester may still order that.
func (d *Desk) expandAgain(ctx context.Context, approval store.Approval, w wish.Wish) (wish.Plan, error) {
	requester, err := d.People.Who(approval.Requester)
	if err == nil {
		err = requester.May(protocol.VerbRun)
	}
	if err == nil && !d.People.Signed() { // else it said how old the request could be, which came in time
		err = d.Wishes.InTime(w.Deadline)
	}
	if err != nil {
		return wish.Plan{}, err
	}
	return w.Expand(ctx, requester)
}

func (d *Desk) reject(ctx context.Context, person people.Person, approval store.Approval, why string, now time.Time) (protocol.Reply, error) {
	approval, err := d.Approvals.DecideApproval(ctx, approval.ApprovalID, person.Name, store.ApprovalRejected, why, now)
	if err != nil {
		return protocol.Reply{}, err
	}
	d.Logger.Info("rejected", "approval_id", approval.ApprovalID, "kind", approval.Kind, "requester", approval.Requester, "user", person.Name)
	d.tell(ctx, approval, protocol.Rejected(refuse.Rejected(approval)))
	return tell.Rejected(false), nil
}

func (d *Desk) makeVoid(ctx context.Context, person people.Person, approval store.Approval, why string) (protocol.Reply, error) {
	approval, err := d.Approvals.DecideApproval(ctx, approval.ApprovalID, person.Name, store.ApprovalVoid, why, d.Now())
	if err != nil {
		return protocol.Reply{}, err
	}
	d.tell(ctx, approval, protocol.Rejected(refuse.Voided(approval)))
	return protocol.Reply{}, refuse.Voided(approval)
}

func (d *Desk) expire(ctx context.Context, approval store.Approval, now time.Time) (protocol.Reply, error) {
	approval, err := d.Approvals.DecideApproval(ctx, approval.ApprovalID, "headquarters", store.ApprovalExpired, "nobody decided in time", now)
	if err != nil {
		return protocol.Reply{}, err
	}
	d.tell(ctx, approval, protocol.Rejected(refuse.Overdue(approval, d.Wishes.Zone)))
	return protocol.Reply{}, refuse.Overdue(approval, d.Wishes.Zone)
}

// decided answers whoever comes after the decision: the same word is repeated,
// another comes too late.
func (d *Desk) decided(ctx context.Context, approval store.Approval, wanted protocol.Decision) (protocol.Reply, error) {
	switch approval.State {
	case store.ApprovalExpired:
		return protocol.Reply{}, refuse.Overdue(approval, d.Wishes.Zone)
	case store.ApprovalVoid:
		return protocol.Reply{}, refuse.Voided(approval)
	case store.ApprovalRejected:
		if wanted == protocol.DecisionReject {
			return tell.Rejected(true), nil
		}
	case store.ApprovalApproved:
		if wanted != protocol.DecisionApprove {
			break
		}
		if approval.Kind == store.ApprovalKeys {
			return d.rotated(approval, true), nil
		}
		run, err := d.Past.GetRun(ctx, approval.RunID)
		return tell.Accepted(d.Sender.Topics(), run, true), err
	}
	return protocol.Reply{}, refuse.TooLate(approval)
}

// tell lets the requester know, as far as a user can be told. It is a courtesy:
// status tells it at any time.
func (d *Desk) tell(ctx context.Context, approval store.Approval, reply protocol.Reply) {
	if !protocol.ValidID(approval.Requester) {
		return
	}
	reply.ApprovalID = approval.ApprovalID
	if reply.RequestID = approval.RequestID; !protocol.ValidID(reply.RequestID) {
		reply.RequestID = "" // it was derived from the bytes
	}
	topic := d.Sender.Topics().LastReply(approval.Requester)
	if err := d.Sender.JSON(ctx, topic, reply, transport.Options{}); err != nil {
		d.Logger.Warn("cannot tell the requester what was decided", "approval_id", approval.ApprovalID, "user", approval.Requester, "error", err)
	}
}
