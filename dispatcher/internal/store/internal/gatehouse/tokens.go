package gatehouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// AddEnrolment stores a token's hash, with an audit entry.
func (g *Gatehouse) AddEnrolment(ctx context.Context, e Enrolment) error {
	err := g.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT INTO enrolments (token_sha256, store_id, terminal_id, created_by, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?)`,
			e.TokenSHA256, e.StoreID, e.TerminalID, e.CreatedBy, sqlite.Millis(e.CreatedAt), sqlite.Millis(e.ExpiresAt))
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, entry(e.CreatedBy, "enrolment_token", who(e.StoreID, e.TerminalID),
			fmt.Sprintf("token with sha256 %s, valid until %s", e.TokenSHA256, moment(e.ExpiresAt)), e.CreatedAt))
	}})
	if err != nil {
		return fmt.Errorf("cannot store a token for terminal %s of store %s: %w", e.TerminalID, e.StoreID, err)
	}
	return nil
}

// Enrol uses the token and takes the key into trust, both or neither, with an
// audit entry. Store and terminal are the token's; where key names them it must
// name the same, else nothing is used and the error is an *OtherTerminalError:
// the machine that the token is for must still get in with it. Older keys of the
// terminal stay as they are. The key that used a token may come again within 10
// minutes, with a new certificate. It fails with ErrTokenInvalid or ErrKeyTaken.
func (g *Gatehouse) Enrol(ctx context.Context, tokenSHA256 string, key TerminalKey, now time.Time) (TerminalKey, error) {
	enrolled, err := sqlite.Do(ctx, g.db, func(tx *sqlite.Tx) (TerminalKey, error) {
		t, err := sqlite.One(ctx, tx, scanToken, selectToken, tokenSHA256)
		if errors.Is(err, sqlite.ErrNotFound) {
			return TerminalKey{}, fmt.Errorf("%w: it is not known here", ErrTokenInvalid)
		}
		if err != nil {
			return TerminalKey{}, err
		}
		again := t.keyID == key.KeyID && !t.usedAt.IsZero() && !now.After(t.usedAt.Add(lostAnswer))
		if err := t.refuse(again, now); err != nil {
			return TerminalKey{}, err
		}
		if key.StoreID != "" && key.StoreID != t.StoreID || key.TerminalID != "" && key.TerminalID != t.TerminalID {
			return TerminalKey{}, &OtherTerminalError{StoreID: t.StoreID, TerminalID: t.TerminalID}
		}
		key.StoreID, key.TerminalID = t.StoreID, t.TerminalID
		if err := insertKey(ctx, tx, &key, now); err != nil {
			return TerminalKey{}, err
		}
		if !again {
			if err := useToken(tx, tokenSHA256, key.KeyID, now); err != nil {
				return TerminalKey{}, err
			}
		}
		return key, audit.Append(ctx, tx, entry(who(key.StoreID, key.TerminalID), "enrolled", who(key.StoreID, key.TerminalID),
			fmt.Sprintf("%s, with the token of %s", key.describe(), t.CreatedBy), now))
	})
	if err != nil {
		return TerminalKey{}, fmt.Errorf("cannot enrol key %s: %w", key.KeyID, err)
	}
	return enrolled, nil
}

// useToken is guarded, so that of many that come at once one wins.
func useToken(tx *sqlite.Tx, tokenSHA256, keyID string, now time.Time) error {
	n, err := tx.Exec(`UPDATE enrolments SET used_at = ?, key_id = ? WHERE token_sha256 = ? AND used_at = 0`,
		sqlite.Millis(now), keyID, tokenSHA256)
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: it was used meanwhile", ErrTokenInvalid)
	}
	return err
}

type token struct {
	Enrolment
	usedAt time.Time
	keyID  string
}

// refuse says why the token cannot be used now. again: the key that used it
// came back in time.
func (t token) refuse(again bool, now time.Time) error {
	switch {
	case again:
		return nil
	case !t.usedAt.IsZero() && t.keyID == "":
		return fmt.Errorf("%w: it was voided at %s, when its terminal was revoked", ErrTokenInvalid, moment(t.usedAt))
	case !t.usedAt.IsZero():
		return fmt.Errorf("%w: it was used at %s", ErrTokenInvalid, moment(t.usedAt))
	case !now.Before(t.ExpiresAt):
		return fmt.Errorf("%w: it expired at %s", ErrTokenInvalid, moment(t.ExpiresAt))
	}
	return nil
}

const selectToken = `SELECT token_sha256, store_id, terminal_id, created_by, created_at, expires_at, used_at, coalesce(key_id, '')
	FROM enrolments WHERE token_sha256 = ?`

func scanToken(row sqlite.Row) (token, error) {
	var t token
	err := row.Scan(&t.TokenSHA256, &t.StoreID, &t.TerminalID, &t.CreatedBy, sqlite.Moment{Into: &t.CreatedAt},
		sqlite.Moment{Into: &t.ExpiresAt}, sqlite.Moment{Into: &t.usedAt}, &t.keyID)
	return t, err
}

// moment is a time as texts show it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
