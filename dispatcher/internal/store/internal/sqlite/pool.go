package sqlite

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
	"sync/atomic"
)

// Pool reads with cached statements. The connections are query_only.
type Pool struct {
	db     *sql.DB
	whole  bool // a read is over soon: it is not worth a watch over its context
	closed atomic.Bool
	saw    func(error) // is told of each error of a read; nil while the database opens

	mu    sync.RWMutex
	stmts map[string]*sql.Stmt // by query text; the texts are constants
}

func openPool(path string, size, idle int) (*Pool, error) {
	db, err := connect(path, url.Values{
		"mode":    {"rw"}, // where the file was taken away, none is made
		"_pragma": {"busy_timeout(5000)", "query_only(1)"},
	})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(idle)
	return &Pool{db: db, stmts: map[string]*sql.Stmt{}}, nil
}

// QueryContext runs a constant query text. The caller closes the rows. It
// returns ErrClosed when the database is closed.
func (p *Pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := p.stmt(ctx, query) //nolint:sqlclosecheck // kept for the next call
	if err != nil {
		return nil, p.explain(err)
	}
	if p.whole {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ctx = context.WithoutCancel(ctx) // else two goroutines watch it
	}
	rows, err := stmt.QueryContext(ctx, args...)
	return rows, p.explain(err)
}

func (p *Pool) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	p.mu.RLock()
	stmt, ok := p.stmts[query]
	p.mu.RUnlock()
	if ok {
		return stmt, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if stmt, ok := p.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := p.db.PrepareContext(ctx, query) //nolint:sqlclosecheck // closed with the pool
	if err == nil {
		p.stmts[query] = stmt
	}
	return stmt, err
}

func (p *Pool) explain(err error) error {
	if err != nil && p.closed.Load() {
		return ErrClosed
	}
	if err != nil && p.saw != nil {
		p.saw(err)
	}
	return err
}

// InUse is the number of connections that are reading now: 0 when no rows and
// no snapshot are left open.
func (p *Pool) InUse() int { return p.db.Stats().InUse }

// Querier is anything that reads: a Pool, a Tx or a View.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each calls row for every row of the query and closes the rows, whatever
// happens. It stops at the first error.
func Each(ctx context.Context, q Querier, row func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	if p, is := q.(*Pool); is {
		return p.explain(rows.Err())
	}
	return rows.Err()
}
