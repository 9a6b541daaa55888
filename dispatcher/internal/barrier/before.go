package barrier

import (
	"context"
	"errors"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// before compares the rows that it meets, which come by store id, with what became of
// the same stores in the job's run before. A nil one compares nothing.
type before struct {
	found protocol.Previous
	rows  []store.OutcomeRow // by store id
	rest  []store.OutcomeRow // that no row was compared with yet
}

// compareWith finds the run to compare a revision with, nil when there is none. Which
// one that is follows from when both were made, so that a second try finds the same.
func (b *Barrier) compareWith(ctx context.Context, rev *store.Revision) (*before, error) {
	last, rows, err := b.deps.Revisions.LoadBefore(ctx, rev.RunID, rev.AsOf)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &before{rows: rows, found: protocol.Previous{RunID: last.RunID, Revision: last.Revision,
		AsOf: in(protocol.At(last.AsOf), b.cfg.Location)}}, nil
}

// begin starts anew: rows may be looked at again.
func (c *before) begin() {
	if c == nil {
		return
	}
	c.rest = c.rows
	c.found.Targets, c.found.Counts, c.found.Common, c.found.NewlyMissing, c.found.Recovered = len(c.rows), protocol.Counts{}, 0, 0, 0
	c.found.NewlyMissingIDs, c.found.RecoveredIDs = []string{}, []string{}
	for i := range c.rows {
		c.found.Counts.Add(c.rows[i].Outcome)
	}
}

func (c *before) meet(row *store.OutcomeRow) {
	if c == nil {
		return
	}
	for len(c.rest) > 0 && c.rest[0].StoreID < row.StoreID {
		c.rest = c.rest[1:]
	}
	if len(c.rest) == 0 || c.rest[0].StoreID != row.StoreID {
		return
	}
	c.found.Common++
	was, is := c.rest[0].Outcome == task.OutcomeSucceeded, row.Outcome == task.OutcomeSucceeded
	switch {
	case was && !is:
		c.found.NewlyMissing++
		note(&c.found.NewlyMissingIDs, row.StoreID)
	case !was && is:
		c.found.Recovered++
		note(&c.found.RecoveredIDs, row.StoreID)
	}
}

func note(list *[]string, id string) {
	if len(*list) < missingShown {
		*list = append(*list, id)
	}
}

// previous is what was found, once all rows were met.
func (c *before) previous() *protocol.Previous {
	if c == nil {
		return nil
	}
	return &c.found
}
