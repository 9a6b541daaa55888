// Package approval keeps what needs the word of a second person until somebody else
// decides, and then has it done: a run, or new signing keys of headquarters. Whether
// a run needs that word is its caller's to say.
package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger/once"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/dispatcher/internal/trigger/tell"
	"muster/dispatcher/internal/trigger/wish"
	"muster/internal/protocol"
)

const (
	// patience is how long an approval waits: what was asked for in the
	// morning must not begin at night because somebody tidies up.
	patience = time.Hour
	// maxWaiting bounds the approvals of one requester that wait.
	maxWaiting = 20
)

// Approvals is what waits for the word of a second person.
type Approvals interface {
	AddApproval(ctx context.Context, a store.Approval, now time.Time) (store.Approval, bool, error)
	GetApproval(ctx context.Context, approvalID string) (store.Approval, error)
	ListApprovals(ctx context.Context, pendingOnly bool) ([]store.Approval, error)
	DecideApproval(ctx context.Context, approvalID, by, state, why string, now time.Time) (store.Approval, error)
}

// Past is what came of requests.
type Past interface {
	GetRun(ctx context.Context, runID string) (store.Run, error)
	LastApproval(ctx context.Context, requester, requestID string) (store.Approval, error)
}

// Desk takes what waits, and decisions on it. Safe for concurrent use.
type Desk struct {
	Approvals Approvals
	Past      Past
	People    *people.People
	Wishes    wish.Reader // its zone is that of the answers, too
	Locks     *once.Locks // of requesters
	// Create makes a run that was approved, and answers the request for it.
	Create func(ctx context.Context, id string, plan wish.Plan, req store.Request, approved Given) (protocol.Reply, error)
	// Do does what is approved and is no run, see KeysRequest; DecidedBy is who
	// approves. When it fails the approval waits on. It must do nothing more when the
	// same approval comes again: a crash may come before it is noted as approved.
	// nil: nothing else can be asked for.
	Do func(ctx context.Context, a store.Approval) error
	// Rotated tells which keys an approval made; nil: nobody is told.
	Rotated func(approvalID string) (identity.Rotated, bool)
	Sender  *transport.Sender
	Now     func() time.Time
	Logger  *slog.Logger
}

// Given is a second person's word on a run.
type Given struct{ ApprovalID, By string }

// Waiting answers a request that waits already, with NEEDS_APPROVAL; what waits under its
// id for something else is CONFLICT. For any other request it says how many of its
// user wait.
func (d *Desk) Waiting(ctx context.Context, key once.Key, w wish.Wish) (reply protocol.Reply, waiting int, err error) {
	pending, err := d.pending(ctx)
	if err != nil {
		return reply, 0, err
	}
	var own *store.Approval
	for _, a := range pending {
		switch {
		case key.Asked(a) && a.RequestHash != key.Content.Hash:
			return reply, 0, refuse.OtherWaits(a, d.differing(a, key))
		case key.Asked(a):
			own = &a
		}
		if a.Requester == key.User {
			waiting++
		}
	}
	if own != nil {
		return tell.Waits(*own), 0, refuse.NeedsApproval(*own, w.What, w.WhatZh, d.Wishes.Zone)
	}
	return reply, waiting, nil
}

// differing lists the members in which a request is not the one that waits; nil when
// that cannot be read.
func (d *Desk) differing(waits store.Approval, key once.Key) []string {
	w, err := d.Wishes.Of(waits)
	if err != nil {
		return nil
	}
	first, err := w.Content()
	if err != nil {
		return nil
	}
	return wish.Differing(first.Members, key.Content.Members)
}

// GivenUp refuses with CONFLICT a request whose approval was given up: sent again, by
// whomever, it must not wait anew.
func (d *Desk) GivenUp(ctx context.Context, key once.Key) error {
	if !key.Own() {
		return nil
	}
	last, err := d.Past.LastApproval(ctx, key.User, key.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case last.State == store.ApprovalPending && overdue(last, d.Now()):
		last.State = store.ApprovalExpired
	}
	if last.State == store.ApprovalPending {
		return nil
	}
	return refuse.GivenUp(last)
}

// Ask keeps the request until a second person decides, and answers it with
// NEEDS_APPROVAL. waiting is how many of the user's wait already.
func (d *Desk) Ask(ctx context.Context, key once.Key, w wish.Wish, p wish.Plan, waiting int) (protocol.Reply, error) {
	if waiting >= maxWaiting {
		return protocol.Reply{}, refuse.TooManyWait(waiting)
	}
	hash, err := p.ContentHash()
	if err != nil {
		return protocol.Reply{}, err
	}
	text, err := protocol.Encode(w.Request)
	if err != nil {
		return protocol.Reply{}, err
	}
	asked, duplicate, err := d.Approvals.AddApproval(ctx, store.Approval{ApprovalID: newID(p.At), Kind: store.ApprovalRun,
		Requester: key.User, RequestID: key.ID, RequestHash: key.Content.Hash, ContentHash: hash, Request: string(text),
		Stores: len(p.Targets), CreatedAt: p.At, ExpiresAt: p.At.Add(patience)}, p.At)
	switch {
	case err != nil:
		return protocol.Reply{}, err
	case duplicate && asked.RequestHash != key.Content.Hash:
		return protocol.Reply{}, refuse.OtherWaits(asked, d.differing(asked, key))
	}
	d.Logger.Info("approval asked for", "approval_id", asked.ApprovalID, "user", key.User, "job", p.Spec.Name, "stores", asked.Stores)
	return tell.Waits(asked), refuse.NeedsApproval(asked, w.What, w.WhatZh, d.Wishes.Zone)
}

func newID(now time.Time) string {
	return "ap-" + strings.ToLower(ulid.MustNew(ulid.Timestamp(now), rand.Reader).String())
}

// pending lists the approvals that wait now.
func (d *Desk) pending(ctx context.Context) ([]store.Approval, error) {
	all, err := d.Approvals.ListApprovals(ctx, true)
	if err != nil {
		return nil, err
	}
	now, waiting := d.Now(), all[:0]
	for _, a := range all {
		if !overdue(a, now) {
			waiting = append(waiting, a)
		}
	}
	return waiting, nil
}

// overdue says whether an approval has waited long enough. One that was asked
// for after now is from before the clock was set back, and nobody can tell.
func overdue(a store.Approval, now time.Time) bool {
	return !now.Before(a.ExpiresAt) || a.CreatedAt.After(now.Add(time.Minute))
}
