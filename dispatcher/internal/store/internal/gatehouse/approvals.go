package gatehouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// The kinds of approval.
const (
	KindRun  = "run"
	KindKeys = "keys"
)

// The states of an approval: it begins as pending and is decided once.
const (
	StatePending  = "pending"
	StateApproved = "approved"
	StateRejected = "rejected"
	StateExpired  = "expired" // nobody decided in time
	StateVoid     = "void"    // what was asked is no longer what would be done
)

// Approval is something that one person asked for and another has to approve.
type Approval struct {
	ApprovalID  string
	Kind        string
	Requester   string
	RequestID   string // "" makes every asking a new approval
	RequestHash string // of the request, as in Request.ContentHash
	ContentHash string // of what would be done
	Request     string // JSON
	Stores      int
	CreatedAt   time.Time // zero: now
	ExpiresAt   time.Time
	State       string
	DecidedAt   time.Time // zero while pending
	DecidedBy   string
	Why         string
	RunID       string // of an approved run
}

// AddApproval stores what has to be approved, with an audit entry. When the
// requester asked under the same request id and that is still pending, it
// returns that one and duplicate; whether the content is the same is the
// caller's to compare.
func (g *Gatehouse) AddApproval(ctx context.Context, a Approval, now time.Time) (Approval, bool, error) {
	type added struct {
		Approval
		duplicate bool
	}
	if a.CreatedAt.IsZero() {
		a.CreatedAt = now
	}
	got, err := sqlite.Do(ctx, g.db, func(tx *sqlite.Tx) (added, error) {
		if err := expire(ctx, tx, now); err != nil {
			return added{}, err
		}
		first, err := sqlite.One(ctx, tx, scanApproval, `SELECT `+approvalColumns+` FROM approvals
			WHERE requester = ? AND request_id = ? AND request_id <> '' AND state = 'pending'`, a.Requester, a.RequestID)
		if !errors.Is(err, sqlite.ErrNotFound) {
			return added{first, err == nil}, err
		}
		_, err = tx.Exec(`INSERT INTO approvals (approval_id, kind, requester, request_id, request_hash, content_hash, request, stores,
				created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			a.ApprovalID, a.Kind, a.Requester, a.RequestID, a.RequestHash, a.ContentHash, a.Request, a.Stores,
			sqlite.Millis(a.CreatedAt), sqlite.Millis(a.ExpiresAt))
		if err != nil {
			return added{}, err
		}
		stored, err := getApproval(ctx, tx, a.ApprovalID)
		if err != nil {
			return added{}, err
		}
		return added{stored, false}, audit.Append(ctx, tx, entry(a.Requester, "approval_asked", a.ApprovalID,
			fmt.Sprintf("%s, %s, content sha256 %s, until %s", a.Kind, audit.Many(a.Stores, "store"), a.ContentHash, moment(a.ExpiresAt)), now))
	})
	if err != nil {
		return Approval{}, false, fmt.Errorf("cannot ask for approval %s: %w", a.ApprovalID, err)
	}
	return got.Approval, got.duplicate, nil
}

// DecideApproval takes a pending approval to rejected, expired, void or, unless
// it is for a run, approved, with an audit entry. It fails with ErrNotFound,
// with ErrDecided when the approval is not pending or its time is over, and
// with ErrSamePerson.
func (g *Gatehouse) DecideApproval(ctx context.Context, id, by, state, why string, now time.Time) (Approval, error) {
	type decision struct {
		Approval
		refused error // beside what expired, which is committed
	}
	got, err := sqlite.Do(ctx, g.db, func(tx *sqlite.Tx) (decision, error) {
		a, err := Pending(ctx, tx, id, now)
		switch {
		case errors.Is(err, ErrDecided) && a.State == state && state == StateExpired:
			return decision{a, nil}, nil
		case err != nil:
			return decision{refused: err}, nil //nolint:nilerr // it is returned after the commit
		case a.Kind == KindRun && state == StateApproved:
			return decision{}, errors.New("a run is approved by creating it")
		}
		a, err = Decide(ctx, tx, a, by, state, why, "", now)
		return decision{a, nil}, err
	})
	if err == nil {
		err = got.refused
	}
	if err != nil {
		return Approval{}, fmt.Errorf("cannot decide on approval %s: %w", id, err)
	}
	return got.Approval, nil
}

// Pending returns the approval if it can be decided now, else ErrNotFound or
// ErrDecided. It marks what expired, so the operation should be committed
// whatever it says.
func Pending(ctx context.Context, tx *sqlite.Tx, id string, now time.Time) (Approval, error) {
	if err := expire(ctx, tx, now); err != nil {
		return Approval{}, err
	}
	a, err := getApproval(ctx, tx, id)
	if err == nil && a.State != StatePending {
		err = fmt.Errorf("%w: it is %s since %s, by %s", ErrDecided, a.State, moment(a.DecidedAt), a.DecidedBy)
	}
	return a, err
}

// Decide makes the one move of a pending approval, guarded, with an audit
// entry.
func Decide(ctx context.Context, tx *sqlite.Tx, a Approval, by, state, why, runID string, now time.Time) (Approval, error) {
	if state == StateApproved && by == a.Requester {
		return Approval{}, fmt.Errorf("%w: %s", ErrSamePerson, by)
	}
	var run any // NULL
	if runID != "" {
		run = runID
	}
	n, err := tx.Exec(`UPDATE approvals SET state = ?, decided_at = ?, decided_by = ?, why = ?, run_id = ? WHERE approval_id = ? AND state = 'pending'`,
		state, sqlite.Millis(now), by, why, run, a.ApprovalID)
	if err != nil {
		return Approval{}, err
	}
	if n != 1 {
		return Approval{}, ErrDecided
	}
	a.State, a.DecidedAt, a.DecidedBy, a.Why, a.RunID = state, sqlite.Stored(now), by, why, runID
	detail := fmt.Sprintf("%s of %s, content sha256 %s", a.Kind, a.Requester, a.ContentHash)
	if runID != "" {
		detail += ", run " + runID
	}
	if why != "" {
		detail += ", reason: " + why
	}
	return a, audit.Append(ctx, tx, entry(by, "approval_"+state, a.ApprovalID, detail, now))
}

// expire decides for those who did not.
func expire(ctx context.Context, tx *sqlite.Tx, now time.Time) error {
	overdue, err := sqlite.List(ctx, tx, scanApproval,
		`SELECT `+approvalColumns+` FROM approvals WHERE state = 'pending' AND expires_at <= ? ORDER BY expires_at, approval_id`, sqlite.Millis(now))
	for _, a := range overdue {
		if _, err := Decide(ctx, tx, a, audit.Headquarters, StateExpired, "nobody decided in time", "", now); err != nil {
			return err
		}
	}
	return err
}

// GetApproval returns the approval, or ErrNotFound. One whose time is over by
// headquarters' last Beat reads as expired.
func (g *Gatehouse) GetApproval(ctx context.Context, id string) (Approval, error) {
	a, err := getApproval(ctx, g.db.Readers(), id)
	if err != nil {
		return Approval{}, fmt.Errorf("cannot get approval %s: %w", id, err)
	}
	return a, nil
}

// LastApproval returns the newest approval that the requester asked for under
// the request id, whatever became of it, or ErrNotFound.
func (g *Gatehouse) LastApproval(ctx context.Context, requester, requestID string) (Approval, error) {
	a, err := sqlite.One(ctx, g.db.Readers(), scanApproval, `SELECT `+approvalColumns+` FROM approvals
		WHERE requester = ? AND request_id = ? ORDER BY created_at DESC, approval_id DESC LIMIT 1`, requester, requestID)
	if err != nil {
		return Approval{}, fmt.Errorf("cannot get the approval of a request of %s: %w", requester, err)
	}
	return a, nil
}

// ListApprovals returns all approvals, or those that are pending, oldest first;
// see GetApproval.
func (g *Gatehouse) ListApprovals(ctx context.Context, pendingOnly bool) ([]Approval, error) {
	approvals, err := sqlite.List(ctx, g.db.Readers(), scanApproval, `SELECT `+approvalColumns+` FROM approvals
		WHERE NOT ? OR (state = 'pending' AND expires_at > `+lastBeat+`) ORDER BY created_at, approval_id`, pendingOnly)
	if err != nil {
		return nil, fmt.Errorf("cannot list approvals: %w", err)
	}
	return approvals, nil
}

func getApproval(ctx context.Context, q sqlite.Querier, id string) (Approval, error) {
	return sqlite.One(ctx, q, scanApproval, `SELECT `+approvalColumns+` FROM approvals WHERE approval_id = ?`, id)
}

// lastBeat is the newest time that headquarters was surely alive at; reads are
// told no other.
const lastBeat = `coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'beat'), 0)`

const approvalColumns = `approval_id, kind, requester, request_id, request_hash, content_hash, request, stores, created_at, expires_at,
	CASE WHEN state = 'pending' AND expires_at <= ` + lastBeat + ` THEN 'expired' ELSE state END,
	decided_at, decided_by, why, coalesce(run_id, '')`

func scanApproval(row sqlite.Row) (Approval, error) {
	var a Approval
	err := row.Scan(&a.ApprovalID, &a.Kind, &a.Requester, &a.RequestID, &a.RequestHash, &a.ContentHash, &a.Request, &a.Stores,
		sqlite.Moment{Into: &a.CreatedAt}, sqlite.Moment{Into: &a.ExpiresAt}, &a.State,
		sqlite.Moment{Into: &a.DecidedAt}, &a.DecidedBy, &a.Why, &a.RunID)
	return a, err
}
