package gatehouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// RenewKey takes a new certificate into trust, of the same key or of a new one,
// with an audit entry. Store and terminal are the old key's. It fails with
// ErrNotFound when the old key is unknown, and with ErrKeyTaken when it is
// revoked or the new one is another terminal's.
func (g *Gatehouse) RenewKey(ctx context.Context, oldKeyID string, key TerminalKey, now time.Time) error {
	err := g.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error {
		key := key // Run may be called twice
		old, err := sqlite.One(ctx, tx, scanKey, selectKey, oldKeyID)
		if err != nil {
			return err
		}
		if err := old.trusted(); err != nil {
			return err
		}
		key.StoreID, key.TerminalID = old.StoreID, old.TerminalID
		if err := insertKey(ctx, tx, &key, now); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entry(who(key.StoreID, key.TerminalID), "renewed", who(key.StoreID, key.TerminalID),
			fmt.Sprintf("%s, in place of key %s", key.describe(), oldKeyID), now))
	}})
	if err != nil {
		return fmt.Errorf("cannot renew key %s: %w", oldKeyID, err)
	}
	return nil
}

// RevokeTerminal ends the trust in every key of the terminal for good, voids
// its unused tokens, and returns every certificate of these keys, with an audit
// entry. ErrNotFound: there was neither key nor token.
func (g *Gatehouse) RevokeTerminal(ctx context.Context, storeID, terminalID, by string, now time.Time) ([]TerminalKey, error) {
	revoked, err := sqlite.Do(ctx, g.db, func(tx *sqlite.Tx) ([]TerminalKey, error) {
		return revoke(ctx, tx, storeID, terminalID, by, now)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot revoke terminal %s of store %s: %w", terminalID, storeID, err)
	}
	return revoked, nil
}

func revoke(ctx context.Context, tx *sqlite.Tx, storeID, terminalID, by string, now time.Time) ([]TerminalKey, error) {
	keys, err := sqlite.List(ctx, tx, scanKey, `SELECT `+keyColumns+keyTables+
		` WHERE k.store_id = ? AND k.terminal_id = ? AND k.revoked_at = 0 ORDER BY k.key_id, c.issued_at, c.serial`, storeID, terminalID)
	if err != nil {
		return nil, err
	}
	n, err := tx.Exec(`UPDATE terminal_keys SET revoked_at = ? WHERE store_id = ? AND terminal_id = ? AND revoked_at = 0`,
		sqlite.Millis(now), storeID, terminalID)
	if err != nil {
		return nil, err
	}
	tokens, err := tx.Exec(`UPDATE enrolments SET used_at = ? WHERE store_id = ? AND terminal_id = ? AND used_at = 0`,
		sqlite.Millis(now), storeID, terminalID)
	if err != nil {
		return nil, err
	}
	if n+tokens == 0 {
		return nil, sqlite.ErrNotFound
	}
	detail := fmt.Sprintf("%s with %s revoked, %s voided", audit.Many(int(n), "key"), audit.Many(len(keys), "certificate"), audit.Many(int(tokens), "token"))
	for i := range keys {
		keys[i].RevokedAt = sqlite.Stored(now)
		detail += "; " + keys[i].describe()
	}
	return keys, audit.Append(ctx, tx, entry(by, "revoked", who(storeID, terminalID), detail, now))
}

// GetTerminalKey returns the key with its newest certificate, revoked or not,
// or ErrNotFound.
func (g *Gatehouse) GetTerminalKey(ctx context.Context, keyID string) (TerminalKey, error) {
	key, err := sqlite.One(ctx, g.db.Readers(), scanKey, selectKey, keyID)
	if err != nil {
		return TerminalKey{}, fmt.Errorf("cannot get key %s: %w", keyID, err)
	}
	return key, nil
}

// ListTerminalKeys returns every key with its newest certificate, revoked or
// not, by store, terminal and age.
func (g *Gatehouse) ListTerminalKeys(ctx context.Context) ([]TerminalKey, error) {
	keys, err := sqlite.List(ctx, g.db.Readers(), scanKey, `SELECT `+keyColumns+keyTables+`
		WHERE c.rowid = (SELECT n.rowid FROM terminal_certificates n WHERE n.key_id = k.key_id ORDER BY n.issued_at DESC, n.rowid DESC LIMIT 1)
		ORDER BY k.store_id, k.terminal_id, k.created_at, k.key_id`)
	if err != nil {
		return nil, fmt.Errorf("cannot list keys: %w", err)
	}
	return keys, nil
}

// ListRevoked returns every certificate of every revoked key: a key that was
// certified twice comes twice. Certificates that ended are among them.
func (g *Gatehouse) ListRevoked(ctx context.Context) ([]TerminalKey, error) {
	keys, err := sqlite.List(ctx, g.db.Readers(), scanKey, `SELECT `+keyColumns+keyTables+
		` WHERE k.revoked_at <> 0 ORDER BY k.revoked_at, c.issued_at, c.serial`)
	if err != nil {
		return nil, fmt.Errorf("cannot list revoked keys: %w", err)
	}
	return keys, nil
}

// insertKey stores the certificate, and the key unless it is there. It brings
// key to what later reads return.
func insertKey(ctx context.Context, tx *sqlite.Tx, key *TerminalKey, now time.Time) error {
	if key.IssuedAt.IsZero() {
		key.IssuedAt = now
	}
	known, err := sqlite.One(ctx, tx, scanKey, selectKey, key.KeyID)
	switch {
	case errors.Is(err, sqlite.ErrNotFound):
		_, err = tx.Exec(`INSERT INTO terminal_keys (key_id, store_id, terminal_id, public_key, created_at) VALUES (?, ?, ?, ?, ?)`,
			key.KeyID, key.StoreID, key.TerminalID, key.PublicKey, sqlite.Millis(now))
	case err != nil:
	case known.StoreID != key.StoreID || known.TerminalID != key.TerminalID || known.PublicKey != key.PublicKey:
		err = fmt.Errorf("%w: key %s is that of terminal %s of store %s; make a new key", ErrKeyTaken, key.KeyID, known.TerminalID, known.StoreID)
	default:
		err = known.trusted()
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO terminal_certificates (serial, key_id, issued_at, not_after) VALUES (?, ?, ?, ?)`,
		key.Serial, key.KeyID, sqlite.Millis(key.IssuedAt), sqlite.Millis(key.NotAfter))
	key.IssuedAt, key.NotAfter, key.RevokedAt = sqlite.Stored(key.IssuedAt), sqlite.Stored(key.NotAfter), time.Time{}
	return err
}

func (k TerminalKey) trusted() error {
	if k.RevokedAt.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: key %s was revoked at %s", ErrKeyTaken, k.KeyID, moment(k.RevokedAt))
}

func (k TerminalKey) describe() string {
	return fmt.Sprintf("key %s, certificate %s valid until %s", k.KeyID, k.Serial, moment(k.NotAfter))
}

const keyColumns = `k.key_id, k.store_id, k.terminal_id, k.public_key, c.serial, c.issued_at, c.not_after, k.revoked_at`

const keyTables = ` FROM terminal_keys k JOIN terminal_certificates c ON c.key_id = k.key_id`

// selectKey takes the newest certificate.
const selectKey = `SELECT ` + keyColumns + keyTables + ` WHERE k.key_id = ? ORDER BY c.issued_at DESC, c.rowid DESC LIMIT 1`

func scanKey(row sqlite.Row) (TerminalKey, error) {
	var k TerminalKey
	err := row.Scan(&k.KeyID, &k.StoreID, &k.TerminalID, &k.PublicKey, &k.Serial,
		sqlite.Moment{Into: &k.IssuedAt}, sqlite.Moment{Into: &k.NotAfter}, sqlite.Moment{Into: &k.RevokedAt})
	return k, err
}
