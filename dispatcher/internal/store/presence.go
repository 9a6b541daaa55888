package store

import (
	"context"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// SetPresence stores that a session began (Online) or ended. It is applied
// only if it is not stale: an end only of the current session, a beginning
// unless a newer session began. Since is the moment it speaks of.
func (s *Store) SetPresence(ctx context.Context, t Terminal) (applied bool, err error) {
	n, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		since := millis(t.Since)
		if !t.Online {
			return tx.Exec(`UPDATE terminals SET online = 0, since = ?, last_seen_at = max(last_seen_at, ?)
				WHERE store_id = ? AND terminal_id = ? AND session_id = ? AND online = 1`,
				since, since, t.StoreID, t.TerminalID, t.SessionID)
		}
		return tx.Exec(`INSERT INTO terminals (store_id, terminal_id, online, session_id, session_since, since, last_seen_at)
			VALUES (?, ?, 1, ?, ?, ?, ?)
			ON CONFLICT (store_id, terminal_id) DO UPDATE SET online = 1, session_id = excluded.session_id,
				session_since = excluded.session_since, since = excluded.since,
				last_seen_at = max(last_seen_at, excluded.last_seen_at)
			WHERE excluded.session_since >= session_since`, t.StoreID, t.TerminalID, t.SessionID, since, since, since)
	})
	if err != nil {
		return false, fmt.Errorf("cannot set presence of terminal %s of store %s: %w", t.TerminalID, t.StoreID, err)
	}
	return n > 0, nil
}

// ResetPresence says, at start, that nobody is online. Who was online when
// headquarters went away was last seen at its last Beat.
func (s *Store) ResetPresence(ctx context.Context, now time.Time) error {
	_, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		return tx.Exec(`UPDATE terminals SET online = 0, since = ?,
				last_seen_at = max(last_seen_at, coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'beat'), 0))
			WHERE online = 1`, millis(now))
	})
	if err != nil {
		return fmt.Errorf("cannot reset presence: %w", err)
	}
	return nil
}

// Beat notes that headquarters is alive; see ResetPresence.
func (s *Store) Beat(ctx context.Context, now time.Time) error {
	_, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		return tx.Exec(`INSERT INTO meta (key, value) VALUES ('beat', CAST(? AS TEXT))
			ON CONFLICT (key) DO UPDATE SET value = excluded.value`, millis(now))
	})
	if err != nil {
		return fmt.Errorf("cannot beat: %w", err)
	}
	return nil
}

// SaveHello stores what the terminal said of itself and its clock skew. It
// does not say that the terminal is online.
func (s *Store) SaveHello(ctx context.Context, t Terminal, now time.Time) error {
	_, err := write(ctx, s, func(tx *sqlite.Tx, _ *[]Change) (int64, error) {
		return tx.Exec(`INSERT INTO terminals (store_id, terminal_id, last_seen_at, clock_skew_ms, hello) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (store_id, terminal_id) DO UPDATE SET last_seen_at = max(last_seen_at, excluded.last_seen_at),
				clock_skew_ms = excluded.clock_skew_ms, hello = excluded.hello`,
			t.StoreID, t.TerminalID, millis(now), t.ClockSkewMs, text(t.Hello))
	})
	if err != nil {
		return fmt.Errorf("cannot save hello of terminal %s of store %s: %w", t.TerminalID, t.StoreID, err)
	}
	return nil
}

// ListTerminals returns the store's terminals, by id.
func (s *Store) ListTerminals(ctx context.Context, storeID string) ([]Terminal, error) {
	terminals, err := list(ctx, s.db.Readers(), func(row scanner) (Terminal, error) {
		var t Terminal
		err := row.Scan(&t.StoreID, &t.TerminalID, &t.Online, &t.SessionID, moment{&t.Since}, moment{&t.LastSeenAt},
			&t.ClockSkewMs, raw{&t.Hello})
		return t, err
	}, `SELECT store_id, terminal_id, online, session_id, since, last_seen_at, clock_skew_ms, hello
		FROM terminals WHERE store_id = ? ORDER BY terminal_id`, storeID)
	if err != nil {
		return nil, fmt.Errorf("cannot list terminals of store %s: %w", storeID, err)
	}
	return terminals, nil
}

// CountOnline returns how many targets of the run have a terminal online.
func (s *Store) CountOnline(ctx context.Context, runID string) (int, error) {
	n, err := one(ctx, s.db.Readers(), func(row scanner) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT count(*) FROM run_targets t WHERE t.run_id = ? AND EXISTS
		(SELECT 1 FROM terminals x WHERE x.store_id = t.store_id AND x.online = 1)`, runID)
	if err != nil {
		return 0, fmt.Errorf("cannot count who is online in run %s: %w", runID, err)
	}
	return n, nil
}
