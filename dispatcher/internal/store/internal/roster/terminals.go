package roster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// SetPresence stores that a session began (Online) or ended. It is applied
// only if it is not stale: an end only of the current session, a beginning
// unless a newer session began. Since is the moment it speaks of. A session that
// claims to have begun after now is no newer one, nor was a terminal seen then:
// the clock was set back since.
func (r *Roster) SetPresence(ctx context.Context, t Terminal, now time.Time) (applied bool, err error) {
	since, at := sqlite.Millis(t.Since), sqlite.Millis(now)
	var n int64
	if t.Online {
		n, err = r.db.Update(ctx, `INSERT INTO terminals (store_id, terminal_id, online, session_id, session_since, since, last_seen_at)
			VALUES (?, ?, 1, ?, ?, ?, ?)
			ON CONFLICT (store_id, terminal_id) DO UPDATE SET online = 1, session_id = excluded.session_id,
				session_since = excluded.session_since, since = excluded.since,
				last_seen_at = CASE WHEN last_seen_at > ? THEN excluded.last_seen_at ELSE max(last_seen_at, excluded.last_seen_at) END
			WHERE excluded.session_since >= session_since OR session_since > ?`,
			t.StoreID, t.TerminalID, t.SessionID, since, since, since, at, at)
	} else {
		n, err = r.db.Update(ctx, `UPDATE terminals SET online = 0, since = ?1, last_seen_at = CASE WHEN last_seen_at > ?2 THEN ?1 ELSE max(last_seen_at, ?1) END
			WHERE store_id = ?3 AND terminal_id = ?4 AND session_id = ?5 AND online = 1`,
			since, at, t.StoreID, t.TerminalID, t.SessionID)
	}
	if err != nil {
		return false, fmt.Errorf("cannot set presence of terminal %s of store %s: %w", t.TerminalID, t.StoreID, err)
	}
	return n > 0, nil
}

// ResetPresence says, at start, that nobody is online. Who was online when
// headquarters went away was last seen at its last Beat.
func (r *Roster) ResetPresence(ctx context.Context, now time.Time) error {
	_, err := r.db.Update(ctx, `UPDATE terminals SET online = 0, since = ?,
				last_seen_at = max(last_seen_at, coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'beat'), 0))
			WHERE online = 1`, sqlite.Millis(now))
	if err != nil {
		return fmt.Errorf("cannot reset presence: %w", err)
	}
	return nil
}

// Beat notes that headquarters is alive; see ResetPresence.
func (r *Roster) Beat(ctx context.Context, now time.Time) error {
	_, err := r.db.Update(ctx, `INSERT INTO meta (key, value) VALUES ('beat', CAST(? AS TEXT))
			ON CONFLICT (key) DO UPDATE SET value = excluded.value`, sqlite.Millis(now))
	if err != nil {
		return fmt.Errorf("cannot beat: %w", err)
	}
	return nil
}

// NoteNumber notes a number up to which headquarters may have numbered what it
// says, or owes it (see sqlite.Owed).
func (r *Roster) NoteNumber(ctx context.Context, number int64) error {
	_, err := r.db.Update(ctx, `INSERT INTO meta (key, value) VALUES ('number', CAST(? AS TEXT))
			ON CONFLICT (key) DO UPDATE SET value = excluded.value`, number)
	if err != nil && !errors.Is(err, sqlite.ErrOwed) {
		return fmt.Errorf("cannot note headquarters' number: %w", err)
	}
	return nil
}

// LastNumber returns the number noted last, or 0.
func (r *Roster) LastNumber(ctx context.Context) (int64, error) {
	number, err := sqlite.One(ctx, r.db.Readers(), func(row sqlite.Row) (number int64, err error) {
		err = row.Scan(&number)
		return number, err
	}, `SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'number'), 0)`)
	if err != nil {
		return 0, fmt.Errorf("cannot read headquarters' number: %w", err)
	}
	return number, nil
}

// SaveHello stores what the terminal said of itself and its clock skew. It
// does not say that the terminal is online. It was not seen after now: see
// SetPresence.
func (r *Roster) SaveHello(ctx context.Context, t Terminal, now time.Time) error {
	_, err := r.db.Update(ctx, `INSERT INTO terminals (store_id, terminal_id, last_seen_at, clock_skew_ms, hello) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (store_id, terminal_id) DO UPDATE SET last_seen_at = excluded.last_seen_at,
				clock_skew_ms = excluded.clock_skew_ms, hello = excluded.hello`,
		t.StoreID, t.TerminalID, sqlite.Millis(now), t.ClockSkewMs, sqlite.Text(t.Hello))
	if err != nil {
		return fmt.Errorf("cannot save hello of terminal %s of store %s: %w", t.TerminalID, t.StoreID, err)
	}
	return nil
}

// LastHelloSeq returns the number ("seq") of the last hello of the terminal, or
// 0 when it never said one or said it with another key ("kid").
func (r *Roster) LastHelloSeq(ctx context.Context, storeID, terminalID, keyID string) (int64, error) {
	seq, err := sqlite.One(ctx, r.db.Readers(), func(row sqlite.Row) (seq int64, err error) {
		err = row.Scan(&seq)
		return seq, err
	}, `SELECT coalesce((SELECT json_extract(hello, '$.seq') FROM terminals
			WHERE store_id = ? AND terminal_id = ? AND json_extract(hello, '$.kid') = ?), 0)`, storeID, terminalID, keyID)
	if err != nil {
		return 0, fmt.Errorf("cannot read the last hello of terminal %s of store %s: %w", terminalID, storeID, err)
	}
	return seq, nil
}

// ListTerminals returns the store's terminals, by id.
func (r *Roster) ListTerminals(ctx context.Context, storeID string) ([]Terminal, error) {
	terminals, err := sqlite.List(ctx, r.db.Readers(), func(row sqlite.Row) (Terminal, error) {
		var t Terminal
		err := row.Scan(&t.StoreID, &t.TerminalID, &t.Online, &t.SessionID, sqlite.Moment{Into: &t.Since}, sqlite.Moment{Into: &t.LastSeenAt},
			&t.ClockSkewMs, sqlite.Raw{Into: &t.Hello})
		return t, err
	}, `SELECT store_id, terminal_id, online, session_id, since, last_seen_at, clock_skew_ms, hello
		FROM terminals WHERE store_id = ? ORDER BY terminal_id`, storeID)
	if err != nil {
		return nil, fmt.Errorf("cannot list terminals of store %s: %w", storeID, err)
	}
	return terminals, nil
}

// CountOnline returns how many targets of the run have a terminal online.
func (r *Roster) CountOnline(ctx context.Context, runID string) (int, error) {
	n, err := sqlite.One(ctx, r.db.Readers(), func(row sqlite.Row) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT count(*) FROM run_targets t WHERE t.run_id = ? AND EXISTS
		(SELECT 1 FROM terminals x WHERE x.store_id = t.store_id AND x.online = 1)`, runID)
	if err != nil {
		return 0, fmt.Errorf("cannot count who is online in run %s: %w", runID, err)
	}
	return n, nil
}
