package trigger

import (
	"context"
	"errors"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/approval"
	"muster/dispatcher/internal/trigger/once"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/dispatcher/internal/trigger/tell"
	"muster/dispatcher/internal/trigger/wish"
	"muster/internal/protocol"
)

func (t *Trigger) run(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.RunRequest
	if err := t.decode(protocol.VerbRun, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	return t.fulfil(ctx, person, t.wishes.Run(request), payload)
}

// retry asks again what a run misses, in a run of its own; the answers go into the
// reports of both.
func (t *Trigger) retry(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.RetryRequest
	if err := t.decode(protocol.VerbRetry, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	return t.fulfil(ctx, person, t.wishes.Retry(request), payload)
}

// fulfil does what a wish asks for once, however often it comes.
func (t *Trigger) fulfil(ctx context.Context, person people.Person, w wish.Wish, payload []byte) (protocol.Reply, error) {
	echo := protocol.Reply{RequestID: w.ID}
	if w.DryRun {
		return t.forecast(ctx, person, w)
	}
	// A deadline that is over is no reason to refuse what made its run before.
	if err := errors.Join(t.wantID(w.ID), t.wantDeadline(w.Deadline)); err != nil {
		return echo, err
	}
	content, err := w.Content()
	if err != nil {
		return echo, err
	}
	key := once.Identify(person.Name, w.ID, content, payload, t.Now())
	defer t.locks.Lock(person.Name)()
	reply, err := t.answerOnce(ctx, person, key, w)
	reply.RequestID = w.ID
	return reply, err
}

// answerOnce tells of the run that a request made before, or else orders it.
func (t *Trigger) answerOnce(ctx context.Context, person people.Person, key once.Key, w wish.Wish) (protocol.Reply, error) {
	first, run, err := key.Find(ctx, t.Runs, t.started, t.Now())
	switch {
	case err != nil:
		return protocol.Reply{}, err
	case first == nil:
		return t.order(ctx, person, key, w)
	case first.ContentHash != key.Content.Hash:
		return protocol.Reply{}, refuse.Conflict(w.ID, run.RunID, wish.Differing(first.Members, key.Content.Members))
	}
	return tell.Again(t.Sender.Topics(), run, w.ID, t.Now()), nil
}

// order creates the run of a request that is new, unless a second person has to
// agree first.
func (t *Trigger) order(ctx context.Context, person people.Person, key once.Key, w wish.Wish) (protocol.Reply, error) {
	reply, waiting, err := t.approvals.Waiting(ctx, key, w)
	if err != nil {
		return reply, err
	}
	if err := errors.Join(t.approvals.GivenUp(ctx, key), t.wishes.InTime(w.Deadline)); err != nil {
		return reply, err
	}
	plan, err := w.Expand(ctx, person)
	if err != nil {
		return reply, err
	}
	if t.needsApproval(plan) {
		return t.approvals.Ask(ctx, key, w, plan, waiting)
	}
	return t.create(ctx, w.ID, plan, store.Request{User: key.User, RequestID: key.ID, ContentHash: key.Content.Hash, Members: key.Content.Members}, approval.Given{})
}

// needsApproval says whether a run needs the word of a second person.
func (t *Trigger) needsApproval(p wish.Plan) bool {
	over := t.bounds.Load().ApprovalOver
	return p.Spec.Approval || over > 0 && len(p.Targets) > over
}

// create makes the run, or finds the one that its request made, and answers. id is the
// request's own; approved is zero for a run that needs no second person.
func (t *Trigger) create(ctx context.Context, id string, plan wish.Plan, req store.Request, approved approval.Given) (protocol.Reply, error) {
	var created store.Created
	var err error
	if approved.ApprovalID == "" {
		created, err = t.Runs.CreateRun(ctx, plan.Run, plan.Targets, plan.Tasks, req, plan.At)
	} else {
		created, err = t.Runs.CreateApprovedRun(ctx, approved.ApprovalID, approved.By, plan.Run, plan.Targets, plan.Tasks, req, plan.At)
	}
	run := created.Run
	switch {
	case errors.Is(err, store.ErrNotMissing):
		return protocol.Reply{}, refuse.Meanwhile(plan.Run.ParentRun)
	case err != nil:
		return protocol.Reply{}, err
	case created.Conflict:
		return protocol.Reply{}, refuse.Conflict(id, run.RunID, nil)
	case created.Duplicate:
		return tell.Again(t.Sender.Topics(), run, id, t.Now()), nil
	}
	t.Logger.Info("run accepted", "run_id", run.RunID, "retry_of", run.ParentRun, "user", run.RequestedBy, "approved_by", run.ApprovedBy, "job", run.Job, "stores", run.Targets)
	reply := tell.Accepted(t.Sender.Topics(), run, false)
	tell.LeftOut(&reply, plan.LeftOut)
	return reply, nil
}
