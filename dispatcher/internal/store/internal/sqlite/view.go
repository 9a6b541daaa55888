package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
)

// View is a connection of the stream pool that can be pinned to one moment.
// It is for one goroutine at a time. The log cannot shrink while it is open.
type View struct {
	conn *sql.Conn
	once sync.Once
	err  error
}

// View takes a connection; it may wait for one. The caller closes it.
func (db *DB) View(ctx context.Context) (*View, error) {
	conn, err := db.streams.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot take a read connection: %w", db.streams.explain(err))
	}
	return &View{conn: conn}, nil
}

// Pin fixes what the view sees to what is committed now.
func (v *View) Pin() error {
	for _, text := range []string{"BEGIN", "SELECT count(*) FROM sqlite_schema"} {
		// The first read, not BEGIN, is what takes the snapshot.
		if _, err := v.conn.ExecContext(context.Background(), text); err != nil {
			return fmt.Errorf("cannot pin a snapshot: %w", err)
		}
	}
	return nil
}

// QueryContext reads at the pinned moment. ctx is not handed to SQLite, since
// cancelling it could end the transaction that holds the moment.
func (v *View) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return v.conn.QueryContext(context.WithoutCancel(ctx), query, args...)
}

// Close lets the moment go. Calling it again is harmless.
func (v *View) Close() error {
	v.once.Do(func() {
		if _, err := v.conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			// Not pinned, or broken: either way the pool must not see it again.
			_ = v.conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		if err := v.conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
			v.err = fmt.Errorf("cannot close a snapshot: %w", err)
		}
	})
	return v.err
}
