package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// hostActor stands before the name of whoever asks on headquarters' own
// machine.
const hostActor = "host:"

// approve takes the word of a second person. It needs no de-duplication: what is
// decided stays so, and the same word again gets the same answer.
func (t *Trigger) approve(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.ApproveRequest
	if err := t.decode(protocol.VerbApprove, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	echo := protocol.Reply{RequestID: request.RequestID, ApprovalID: request.ApprovalID}
	if err := errors.Join(t.wantID(request.RequestID), t.inTime(request.Deadline)); err != nil {
		return echo, err
	}
	approval, err := t.getApproval(ctx, request.ApprovalID)
	switch {
	case err != nil:
		return echo, err
	case onePerson(person.Name, approval.Requester):
		return echo, refuse.OwnRequest(approval)
	case approval.ContentHash != request.ContentHash:
		return echo, refuse.OtherContent(approval)
	}
	// The requester's own requests wait, and so do other approvers: whoever
	// comes second reads what the first one did.
	defer t.locks.lock(approval.Requester)()
	reply, err := t.decide(ctx, person, request)
	reply.RequestID, reply.ApprovalID = request.RequestID, request.ApprovalID
	return reply, err
}

// onePerson compares names as people do. Whoever asks on headquarters' machine
// is the user of that name.
func onePerson(a, b string) bool {
	return strings.EqualFold(strings.TrimPrefix(a, hostActor), strings.TrimPrefix(b, hostActor))
}

func (t *Trigger) getApproval(ctx context.Context, approvalID string) (store.Approval, error) {
	approval, err := t.Register.GetApproval(ctx, approvalID)
	if errors.Is(err, store.ErrNotFound) {
		return approval, refuse.UnknownApproval(approvalID)
	}
	return approval, err
}

// decide makes the one move of an approval, or says what was decided before.
func (t *Trigger) decide(ctx context.Context, person people.Person, request protocol.ApproveRequest) (protocol.Reply, error) {
	approval, err := t.getApproval(ctx, request.ApprovalID)
	if err != nil {
		return protocol.Reply{}, err
	}
	now := t.Now()
	if approval.State == store.ApprovalPending && isOverdue(approval, now) {
		return t.expire(ctx, approval, now)
	}
	if approval.State != store.ApprovalPending {
		return t.decided(ctx, approval, request.Decision)
	}
	var reply protocol.Reply
	switch {
	case request.Decision == protocol.DecisionReject:
		reply, err = t.reject(ctx, person, approval, request.Reason, now)
	case approval.Kind == store.ApprovalRun:
		reply, err = t.approveRun(ctx, person, approval)
	default:
		reply, err = t.approveKeys(context.WithoutCancel(ctx), person, approval, now)
	}
	if !errors.Is(err, store.ErrDecided) {
		return reply, err
	}
	if approval, err = t.getApproval(ctx, request.ApprovalID); err != nil {
		return protocol.Reply{}, err
	}
	return t.decided(ctx, approval, request.Decision)
}

// approveRun expands the request anew and creates the run, unless that would no
// longer be what was asked for.
func (t *Trigger) approveRun(ctx context.Context, person people.Person, approval store.Approval) (protocol.Reply, error) {
	w, err := t.wishOf(approval)
	if err != nil {
		return protocol.Reply{}, err
	}
	plan, err := t.expandAgain(ctx, approval, w)
	var refusal *protocol.Error
	if errors.As(err, &refusal) {
		return t.makeVoid(ctx, person, approval, refusal.Message)
	}
	if err != nil {
		return protocol.Reply{}, err
	}
	hash, err := plan.contentHash()
	if err != nil {
		return protocol.Reply{}, err
	}
	if hash != approval.ContentHash {
		return t.makeVoid(ctx, person, approval, "the job, the stores, the input or the settings are not those that were asked for")
	}
	created, err := t.Runs.CreateApprovedRun(ctx, approval.ApprovalID, person.Name, plan.run, plan.targets, plan.tasks,
		store.Request{User: approval.Requester, RequestID: approval.RequestID, ContentHash: approval.RequestHash}, plan.at)
	if errors.Is(err, store.ErrNotMissing) {
		return protocol.Reply{}, refuse.Meanwhile(plan.run.ParentRun)
	}
	if err != nil {
		return protocol.Reply{}, err
	}
	reply, err := t.made(created, w.id, plan.leftOut)
	if err == nil {
		told := reply
		told.ApprovalID = approval.ApprovalID
		t.tell(ctx, approval, told)
	}
	return reply, err
}

// wishOf reads what was asked for.
func (t *Trigger) wishOf(approval store.Approval) (wish, error) {
	request, retry, err := asked(approval)
	switch {
	case err != nil:
		return wish{}, fmt.Errorf("cannot read what approval %s is for: %w", approval.ApprovalID, errors.New(err.Error()))
	case retry != nil:
		return t.retryWish(*retry), nil
	}
	return t.runWish(*request), nil
}

// asked is the request of an approval: of a run, or of a retry.
func asked(approval store.Approval) (*protocol.RunRequest, *protocol.RetryRequest, error) {
	var retry protocol.RetryRequest
	if err := protocol.Decode([]byte(approval.Request), protocol.MaxPayloadBytes, &retry); err == nil && retry.RunID != "" {
		return nil, &retry, nil
	}
	var request protocol.RunRequest
	err := protocol.Decode([]byte(approval.Request), protocol.MaxPayloadBytes, &request)
	return &request, nil, err
}

// expandAgain also asks whether the requester may still order that.
func (t *Trigger) expandAgain(ctx context.Context, approval store.Approval, w wish) (planned, error) {
	requester, err := t.People.Who(approval.Requester)
	if err == nil {
		err = requester.May(protocol.VerbRun)
	}
	if err == nil && !t.People.Signed() { // else it said how old the request could be, which came in time
		err = overdue(w.deadline, t.Now())
	}
	if err != nil {
		return planned{}, err
	}
	return w.expand(ctx, requester)
}

func (t *Trigger) reject(ctx context.Context, person people.Person, approval store.Approval, why string, now time.Time) (protocol.Reply, error) {
	approval, err := t.Register.DecideApproval(ctx, approval.ApprovalID, person.Name, store.ApprovalRejected, why, now)
	if err != nil {
		return protocol.Reply{}, err
	}
	t.Logger.Info("rejected", "approval_id", approval.ApprovalID, "kind", approval.Kind, "requester", approval.Requester, "user", person.Name)
	t.tell(ctx, approval, protocol.Rejected(refuse.Rejected(approval)))
	return rejected(false), nil
}

func (t *Trigger) makeVoid(ctx context.Context, person people.Person, approval store.Approval, why string) (protocol.Reply, error) {
	approval, err := t.Register.DecideApproval(ctx, approval.ApprovalID, person.Name, store.ApprovalVoid, why, t.Now())
	if err != nil {
		return protocol.Reply{}, err
	}
	t.tell(ctx, approval, protocol.Rejected(refuse.Voided(approval)))
	return protocol.Reply{}, refuse.Voided(approval)
}

func (t *Trigger) expire(ctx context.Context, approval store.Approval, now time.Time) (protocol.Reply, error) {
	approval, err := t.Register.DecideApproval(ctx, approval.ApprovalID, "headquarters", store.ApprovalExpired, "nobody decided in time", now)
	if err != nil {
		return protocol.Reply{}, err
	}
	t.tell(ctx, approval, protocol.Rejected(refuse.Overdue(approval)))
	return protocol.Reply{}, refuse.Overdue(approval)
}

// decided answers whoever comes after the decision: the same word is repeated,
// another comes too late.
func (t *Trigger) decided(ctx context.Context, approval store.Approval, wanted protocol.Decision) (protocol.Reply, error) {
	switch approval.State {
	case store.ApprovalExpired:
		return protocol.Reply{}, refuse.Overdue(approval)
	case store.ApprovalVoid:
		return protocol.Reply{}, refuse.Voided(approval)
	case store.ApprovalRejected:
		if wanted == protocol.DecisionReject {
			return rejected(true), nil
		}
	case store.ApprovalApproved:
		if wanted != protocol.DecisionApprove {
			break
		}
		if approval.Kind == store.ApprovalKeys {
			return t.rotated(approval, true), nil
		}
		run, err := t.Runs.GetRun(ctx, approval.RunID)
		return t.accepted(run, true), err
	}
	return protocol.Reply{}, refuse.TooLate(approval)
}

func rejected(duplicate bool) protocol.Reply {
	return protocol.Reply{OK: true, Status: "accepted", Duplicate: &duplicate,
		Message: "rejected; nothing was done", MessageZh: "已拒绝，未执行任何操作"}
}

// tell lets the requester know, as far as a user can be told. It is a courtesy:
// status tells it at any time.
func (t *Trigger) tell(ctx context.Context, approval store.Approval, reply protocol.Reply) {
	if !protocol.ValidID(approval.Requester) {
		return
	}
	reply.ApprovalID = approval.ApprovalID
	if reply.RequestID = approval.RequestID; !protocol.ValidID(reply.RequestID) {
		reply.RequestID = "" // it was derived from the bytes
	}
	topic := t.Sender.Topics().LastReply(approval.Requester)
	if err := t.Sender.JSON(ctx, topic, reply, transport.Options{}); err != nil {
		t.Logger.Warn("cannot tell the requester what was decided", "approval_id", approval.ApprovalID, "user", approval.Requester, "error", err)
	}
}
