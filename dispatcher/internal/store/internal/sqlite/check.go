package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/progress"
	"muster/dispatcher/internal/store/internal/custody"
)

// usualCheck bounds the check at Open: headquarters must be back soon. Of 100,000
// tasks the pages take 0.2 s, and to compare every index with its table takes seven
// times as long.
const usualCheck = 5 * time.Second

// checkPages reads every page once and, unless the file is sealed, compares every
// index with its table: after a crash a key that changed shows in nothing else.
// What it could not do within the limit (0: 5 s) is left to a full check.
func checkPages(ctx context.Context, q Querier, sealed bool, limit time.Duration) error {
	if limit == 0 {
		limit = usualCheck
	}
	progress.Say(ctx, readingPages, 0, 0)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, check := range []string{"PRAGMA quick_check(5)", "PRAGMA integrity_check(5)"} {
		found, err := List(bounded, q, func(row Row) (line string, err error) {
			err = row.Scan(&line)
			return line, err
		}, check)
		if bounded.Err() != nil && ctx.Err() == nil && len(found) == 0 {
			return nil // the time is over, and nothing wrong was found
		}
		if err := verdict(found, err); err != nil || sealed {
			return err
		}
	}
	return nil
}

// verdict reads the answer of a check.
func verdict(found []string, err error) error {
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("%w: %s", custody.ErrCorrupt, strings.Join(found, "; "))
	}
	return nil
}

// checking is the check of all pages that goes on after Open.
type checking struct {
	cancel context.CancelFunc
	ended  chan struct{}
	found  error // once it has ended: nil, ErrCorrupt, ErrClosed when Close came first
}

// startChecking starts the check, or says that there is nothing left to check.
func startChecking(path string, sealed, checked bool, limit time.Duration) *checking {
	ctx, cancel := context.WithCancel(context.Background())
	c := &checking{cancel: cancel, ended: make(chan struct{})}
	if checked {
		close(c.ended)
		return c
	}
	go func() {
		defer close(c.ended)
		pool, err := openPool(path, 1, 1)
		if err == nil {
			err = errors.Join(checkPages(ctx, pool.db, sealed, limit), pool.db.Close())
		}
		if ctx.Err() != nil {
			c.found = ErrClosed
		} else if err != nil {
			c.found = fmt.Errorf("cannot open database %s: %w", path, damaged(err, path))
		}
	}()
	return c
}

// stop ends the check and reports whether it found all well.
func (c *checking) stop() bool {
	c.cancel()
	<-c.ended
	return c.found == nil
}

// Sound waits until all pages were checked, and returns ErrCorrupt with the way to
// restore when they are damaged, ErrClosed, or ctx's error.
func (db *DB) Sound(ctx context.Context) error {
	select {
	case <-db.checking.ended:
		return db.checking.found
	default:
	}
	select {
	case <-db.checking.ended:
		return db.checking.found
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit has a write wait until the database is known to be sound. Who is told that
// something is stored deletes their own copy, and what is damaged is replaced by an
// older backup. What a start owes is told to nobody: it does not wait, and is given
// up with the database.
func (db *DB) admit(ctx context.Context) error {
	_, owed := ctx.Value(owedKey{}).(string)
	if !owed {
		err := db.Sound(ctx)
		if errors.Is(err, custody.ErrCorrupt) {
			return fmt.Errorf("%w: nothing more is stored in it", custody.ErrCorrupt) // Sound says more, once
		}
		return err
	}
	select {
	case <-db.checking.ended:
		if db.checking.found != nil {
			return ErrOwed
		}
	default:
	}
	return nil
}
