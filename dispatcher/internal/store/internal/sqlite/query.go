package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"iter"
)

// ErrNotFound says that the query found no row.
var ErrNotFound = errors.New("not found")

// Row is one row of a query.
type Row interface {
	Scan(dest ...any) error
}

// List returns every row of the query.
func List[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	var out []T
	err := Each(ctx, q, func(rows *sql.Rows) error {
		item, err := scan(rows)
		out = append(out, item)
		return err
	}, query, args...)
	return out, err
}

// One returns the first row, or ErrNotFound.
func One[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) (T, error) {
	var item, none T
	found := false
	err := Each(ctx, q, func(rows *sql.Rows) (err error) {
		if !found {
			item, err = scan(rows)
		}
		found = true
		return err
	}, query, args...)
	switch {
	case err != nil:
		return none, err
	case !found:
		return none, ErrNotFound
	}
	return item, nil
}

// errStop ends a stream whose consumer has enough.
var errStop = errors.New("stop")

// Stream yields the rows one by one while they are read, and an error last.
func Stream[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := Each(ctx, q, func(rows *sql.Rows) error {
			item, err := scan(rows)
			if err != nil {
				return err
			}
			if !yield(item, nil) {
				return errStop
			}
			return nil
		}, query, args...)
		if err != nil && !errors.Is(err, errStop) {
			var none T
			yield(none, err)
		}
	}
}

// Update runs one statement in an operation of its own and returns the number
// of rows it changed.
func (db *DB) Update(ctx context.Context, query string, args ...any) (int64, error) {
	var n int64
	err := db.Write(ctx, Op{Run: func(tx *Tx) (err error) {
		n, err = tx.Exec(query, args...)
		return err
	}})
	if err != nil {
		return 0, err // n may still be written by the writer when ctx ended
	}
	return n, nil
}

// Do runs one operation and returns what it made.
func Do[T any](ctx context.Context, db *DB, run func(*Tx) (T, error)) (T, error) {
	var out, none T
	err := db.Write(ctx, Op{Run: func(tx *Tx) (err error) {
		out, err = run(tx)
		return err
	}})
	if err != nil {
		return none, err // out may still be written by the writer when ctx ended
	}
	return out, nil
}
