package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/gatehouse"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// CreateApprovedRun is CreateRun together with the approval that it waited for:
// the run names who approved it and the approval names the run, or neither is
// there. It fails with ErrNotFound, with ErrDecided when the approval is not
// pending or its time is over, and with ErrSamePerson. When the request made a
// run meanwhile the approval becomes void, and Created tells which run.
func (s *Store) CreateApprovedRun(ctx context.Context, approvalID, by string, run Run, places []Place, tasks []NewTask, req Request, now time.Time) (Created, error) {
	type approved struct {
		Created
		refused error // beside what expired, which is committed
	}
	run.ApprovedBy = by
	order := newOrder{run: run, places: places, tasks: tasks, req: req, under: approvalID}
	err := order.prepare(now)
	var got approved
	over := func(bool) {}
	if err == nil {
		over = s.foresee(&order)
		got, err = write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (approved, error) {
			a, err := gatehouse.Pending(ctx, tx, approvalID, now)
			switch {
			case err != nil:
				return approved{refused: err}, nil //nolint:nilerr // it is returned after the commit
			case a.Kind != ApprovalRun:
				return approved{}, fmt.Errorf("approval %s is not for a run", approvalID)
			}
			created, err := order.approve(ctx, tx, a, now, changes)
			return approved{created, nil}, err
		})
	}
	if err == nil {
		err = got.refused
	}
	over(err == nil && !got.Duplicate && !got.Conflict)
	if err != nil {
		return Created{}, fmt.Errorf("cannot create run %s under approval %s: %w", run.RunID, approvalID, err)
	}
	return got.Created, nil
}

func (o *newOrder) approve(ctx context.Context, tx *sqlite.Tx, a Approval, now time.Time, changes *[]Change) (Created, error) {
	first, err := requested(ctx, tx, o.req)
	if err == nil {
		_, err = gatehouse.Decide(ctx, tx, a, o.run.ApprovedBy, ApprovalVoid, "the request made run "+first.Run.RunID+" meanwhile", "", now)
		return first, err
	}
	if !errors.Is(err, ErrNotFound) {
		return Created{}, err
	}
	if o.run.RequestedBy == o.run.ApprovedBy {
		return Created{}, fmt.Errorf("%w: %s", ErrSamePerson, o.run.ApprovedBy)
	}
	created, err := o.insert(ctx, tx, now, changes)
	if err == nil {
		_, err = gatehouse.Decide(ctx, tx, a, o.run.ApprovedBy, ApprovalApproved, "", o.run.RunID, now)
	}
	return created, err
}
