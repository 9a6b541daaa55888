package sqlite

import (
	"context"
	"errors"
)

// ErrOwed says that there is no room for what must not fail for want of it: it is
// done before anything else is written, as soon as there is some. Nothing of it
// is stored yet, and nothing is if the database is closed before.
var ErrOwed = errors.New("it is owed until there is room")

type owedKey struct{}

// Owed marks the context of a write that is owed when there is no room for it:
// Write then fails with ErrOwed instead of ErrNoSpace. What is owed under a name
// takes the place of what was owed under it before.
func Owed(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, owedKey{}, name)
}

// debt is an operation that is owed.
type debt struct {
	name string
	op   Op
}

// owe keeps the operation, if it is one that can be owed.
func (w *writer) owe(r *request) bool {
	name, can := r.ctx.Value(owedKey{}).(string)
	if !can {
		return false
	}
	for i, d := range w.owed {
		if d.name == name {
			w.owed[i].op = r.op
			return true
		}
	}
	w.owed = append(w.owed, debt{name, r.op})
	return true
}

// pay does what is owed. What cannot be done although there is room must not keep
// everything else from being written: it is told and given up.
func (w *writer) pay() error {
	for len(w.owed) > 0 {
		d := w.owed[0]
		err := w.transact([]*request{{op: d.op, ctx: context.Background()}})
		if failing(err) {
			return err
		}
		w.owed = w.owed[1:]
		switch {
		case err != nil && w.lost != nil:
			w.told.tell(func() { w.lost(d.name, err) })
		case err == nil && d.op.Committed != nil:
			w.told.tell(d.op.Committed)
		}
	}
	return nil
}

// write does what is owed, and then the group.
func (w *writer) write(group []*request) error {
	if err := w.pay(); err != nil {
		return err
	}
	return w.transact(group)
}
