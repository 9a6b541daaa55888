package site

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver of the database that is filled

	"muster/internal/trust"
	"muster/tests/load/crowd"
)

// identify makes headquarters' identity.
func (s *Site) identify(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.Dispatcher, "init", filepath.Join(s.Folder, "made"), "--host", "127.0.0.1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make an identity: %w: %s", err, out)
	}
	return nil
}

// enrol writes the terminals' keys into the database, of a headquarters that
// does not run: thousands of real enrolments would take longer than what is
// measured, and leave the same rows.
func (s *Site) enrol(ctx context.Context) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Folder, "data", "muster.db"))
	if err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot enrol: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing once it is committed
	now := time.Now()
	for i := range s.Terminals {
		public, _ := crowd.Key(i).Public().(ed25519.PublicKey) // it has no other type
		id := trust.KeyID(public)
		if _, err := tx.ExecContext(ctx, `INSERT INTO terminal_keys (key_id, store_id, terminal_id, public_key, created_at) VALUES (?, ?, ?, ?, ?)`,
			id, crowd.StoreID(i), crowd.Terminal, base64.StdEncoding.EncodeToString(public), now.UnixMilli()); err != nil {
			return fmt.Errorf("cannot enrol: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO terminal_certificates (serial, key_id, issued_at, not_after) VALUES (?, ?, ?, ?)`,
			fmt.Sprintf("%032x", i+1), id, now.UnixMilli(), now.Add(90*24*time.Hour).UnixMilli()); err != nil {
			return fmt.Errorf("cannot enrol: %w", err)
		}
	}
	return tx.Commit()
}
