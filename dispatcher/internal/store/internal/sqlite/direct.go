package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// direct runs changes past database/sql, which for each of them makes its arguments
// anew four times and takes three locks of a connection that the writer has for
// itself. The zero value is ready.
type direct struct {
	stmts  map[string]driver.Stmt // by query text; the texts are constants
	values []driver.NamedValue
}

// exec returns the number of rows that were changed.
func (d *direct) exec(conn *sql.Conn, query string, args []any) (n int64, err error) {
	d.values = d.values[:0]
	defer func() { clear(d.values) }()
	for i, arg := range args {
		v, err := value(arg)
		if err != nil {
			return 0, fmt.Errorf("argument %d: %w", i+1, err)
		}
		d.values = append(d.values, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	err = conn.Raw(func(raw any) (err error) {
		stmt, err := d.prepared(raw, query)
		if err != nil {
			return err
		}
		result, err := stmt.ExecContext(context.Background(), d.values)
		if err == nil {
			n, err = result.RowsAffected()
		}
		return err
	})
	return n, err
}

func (d *direct) prepared(raw any, query string) (driver.StmtExecContext, error) {
	stmt, known := d.stmts[query]
	if !known {
		conn, able := raw.(driver.ConnPrepareContext)
		if !able {
			return nil, fmt.Errorf("the driver's %T prepares nothing", raw)
		}
		var err error
		if stmt, err = conn.PrepareContext(context.Background(), query); err != nil {
			return nil, err
		}
		if d.stmts == nil {
			d.stmts = map[string]driver.Stmt{}
		}
		d.stmts[query] = stmt
	}
	exec, able := stmt.(driver.StmtExecContext)
	if !able {
		return nil, fmt.Errorf("the driver's %T changes nothing", stmt)
	}
	return exec, nil
}

// close closes the statements; the connection goes next.
func (d *direct) close(conn *sql.Conn) error {
	return conn.Raw(func(any) error {
		var errs []error
		for _, stmt := range d.stmts {
			errs = append(errs, stmt.Close())
		}
		return errors.Join(errs...)
	})
}

// value is an argument as the driver takes it.
func value(arg any) (driver.Value, error) {
	switch v := arg.(type) {
	case nil, int64, string, bool, []byte:
		return v, nil
	case int:
		return int64(v), nil
	case driver.Valuer:
		return v.Value()
	}
	return driver.DefaultParameterConverter.ConvertValue(arg)
}
