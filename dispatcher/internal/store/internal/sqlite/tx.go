package sqlite

import (
	"context"
	"database/sql"
	"strings"
)

// Tx is what an operation reads and writes through. It is valid until Run
// returns. An error of any statement fails the operation even if Run hides it:
// SQLite may have ended the transaction.
type Tx struct {
	w      *writer
	failed error
}

// Exec runs a constant statement and returns the number of rows it changed.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	n, err := tx.w.direct.exec(tx.w.conn, query, args)
	return n, tx.fail(err)
}

// QueryContext runs a constant query; ctx is not used, see transact. The
// caller closes the rows.
func (tx *Tx) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := tx.stmt(query) //nolint:sqlclosecheck // kept for the next call
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	return rows, tx.fail(err)
}

// Insert adds n rows, many a statement. head is "INSERT INTO t (a, b)", row
// its placeholders "(?, ?)", and args returns the values of row i.
func (tx *Tx) Insert(head, row string, n int, args func(i int) []any) error {
	many := head + " VALUES " + row + strings.Repeat(", "+row, bulkRows-1)
	var values []any
	i := 0
	for ; i+bulkRows <= n; i += bulkRows {
		values = values[:0]
		for j := range bulkRows {
			values = append(values, args(i+j)...)
		}
		if _, err := tx.Exec(many, values...); err != nil {
			return err
		}
	}
	for ; i < n; i++ {
		if _, err := tx.Exec(head+" VALUES "+row, args(i)...); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) stmt(query string) (*sql.Stmt, error) {
	if stmt, ok := tx.w.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := tx.w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, tx.fail(err)
	}
	tx.w.stmts[query] = stmt
	return stmt, nil
}

func (tx *Tx) fail(err error) error {
	if err != nil && tx.failed == nil {
		tx.failed = err
	}
	return err
}
