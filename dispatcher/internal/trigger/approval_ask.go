package trigger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

const (
	// approvalTime is how long an approval waits: what was asked for in the
	// morning must not begin at night because somebody tidies up.
	approvalTime = time.Hour
	// maxWaiting bounds the approvals of one requester that wait.
	maxWaiting = 20
)

// secondWord reports whether a run needs the word of a second person.
func (t *Trigger) secondWord(p planned) bool {
	over := t.bounds.Load().ApprovalOver
	return p.spec.Approval || over > 0 && len(p.targets) > over
}

// contentHash is the SHA-256 of everything that decides what would be done: the
// job with its file and schemas, the input, every target, and the policy.
func (p planned) contentHash() (string, error) {
	input, err := canonical(p.run.Input)
	if err != nil {
		return "", err
	}
	stores := make([]string, 0, len(p.targets))
	for _, place := range p.targets {
		stores = append(stores, place.StoreID)
	}
	return digest(struct {
		Job     string          `json:"job"`
		Version int             `json:"version"`
		Digest  string          `json:"digest"`
		Input   json.RawMessage `json:"input"`
		Stores  []string        `json:"stores"` // the planner orders them by id
		Policy  job.Policy      `json:"policy"`
		Parent  string          `json:"parent,omitempty"`
	}{p.spec.Name, p.spec.Version, p.spec.Digest, input, stores, p.run.Policy, p.run.ParentRun})
}

// isOverdue reports whether an approval has waited long enough. One that was asked
// for after now is from before the clock was set back, and nobody can tell.
func isOverdue(a store.Approval, now time.Time) bool {
	return !now.Before(a.ExpiresAt) || a.CreatedAt.After(now.Add(time.Minute))
}

// pending lists the approvals that wait at now.
func (t *Trigger) pending(ctx context.Context) ([]store.Approval, error) {
	all, err := t.Register.ListApprovals(ctx, true)
	if err != nil {
		return nil, err
	}
	now, waiting := t.Now(), all[:0]
	for _, a := range all {
		if !isOverdue(a, now) {
			waiting = append(waiting, a)
		}
	}
	return waiting, nil
}

// waiting returns the approval that the request waits for, or nil, and how many
// the user waits for. A request of the same id that asks for something else is
// refused with CONFLICT.
func (t *Trigger) waiting(ctx context.Context, key requestKey) (own *store.Approval, all int, err error) {
	pending, err := t.pending(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range pending {
		switch {
		case key.same(a) && a.RequestHash != key.content:
			return nil, 0, refuse.OtherWaits(a)
		case key.same(a):
			own = &a
		}
		if a.Requester == key.user {
			all++
		}
	}
	return own, all, nil
}

// closed refuses a request whose approval was given up: sent again, by whomever,
// it must not wait anew.
func (t *Trigger) closed(ctx context.Context, key requestKey) error {
	if key.derived != "" {
		return nil
	}
	last, err := t.Register.LastApproval(ctx, key.user, key.id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case last.State == store.ApprovalPending && isOverdue(last, t.Now()):
		last.State = store.ApprovalExpired
	}
	if last.State == store.ApprovalPending {
		return nil
	}
	return refuse.GivenUp(last)
}

// ask keeps the request until a second person decides. waiting is how many of
// the user's wait already.
func (t *Trigger) ask(ctx context.Context, key requestKey, w wish, p planned, waiting int) (store.Approval, error) {
	if waiting >= maxWaiting {
		return store.Approval{}, refuse.TooManyWait(waiting)
	}
	hash, err := p.contentHash()
	if err != nil {
		return store.Approval{}, err
	}
	text, err := protocol.Encode(w.request)
	if err != nil {
		return store.Approval{}, err
	}
	asked, duplicate, err := t.Register.AddApproval(ctx, store.Approval{ApprovalID: newApprovalID(p.at), Kind: store.ApprovalRun,
		Requester: key.user, RequestID: key.id, RequestHash: key.content, ContentHash: hash, Request: string(text),
		Stores: len(p.targets), CreatedAt: p.at, ExpiresAt: p.at.Add(approvalTime)}, p.at)
	if err == nil && duplicate && asked.RequestHash != key.content {
		err = refuse.OtherWaits(asked)
	}
	if err == nil {
		t.Logger.Info("approval asked for", "approval_id", asked.ApprovalID, "user", key.user, "job", p.spec.Name, "stores", asked.Stores)
	}
	return asked, err
}

func newApprovalID(now time.Time) string {
	return "ap-" + strings.ToLower(ulid.MustNew(ulid.Timestamp(now), rand.Reader).String())
}

// waits is what a reply tells of an approval beside its refusal.
func waits(a store.Approval) protocol.Reply {
	return protocol.Reply{ApprovalID: a.ApprovalID, ContentHash: a.ContentHash,
		ExpiresAt: protocol.At(a.ExpiresAt), Stores: a.Stores}
}
