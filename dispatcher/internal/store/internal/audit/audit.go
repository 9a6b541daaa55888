// Package audit keeps who did what, as a chain: every entry holds the hash of
// the one before it, so that nothing can be changed, left out or put in
// between without breaking what follows.
//
// It does not know what deserves an entry, and signs nothing. The methods of
// Trail are promoted by store.Store.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
)

// Headquarters is the actor of what nobody asked for.
const Headquarters = "headquarters"

// Entry is one line of the audit. ID counts from 1 without a gap; Append gives
// it out.
type Entry struct {
	ID      int64
	At      time.Time // milliseconds
	Actor   string    // who
	Action  string    // did what
	Subject string    // to which thing
	Detail  string
}

// Many words a number of things, of which thing names one, for a detail: 1 task, 2 tasks.
func Many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Head is where the chain ends. Hash vouches for every entry up to ID; Count
// is how many those are.
type Head struct {
	ID    int64
	Hash  string
	Count int64
}

// Trail reads and writes the audit. Safe for concurrent use.
type Trail struct{ db *sqlite.DB }

// Open returns the audit in the database. Entries that an older program wrote
// without hashes are sealed, once, by a first entry that holds their number and
// their hash; its time is that of the newest of them.
func Open(ctx context.Context, db *sqlite.DB) (*Trail, error) {
	begun, err := ask(ctx, db.Readers(), chainMarked)
	if err == nil && !begun {
		err = db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error { return seal(ctx, tx) }})
	}
	if err != nil {
		return nil, fmt.Errorf("cannot seal the older audit: %w", err)
	}
	return &Trail{db: db}, nil
}

// Audit appends one line: who (actor) did what (action) to which thing
// (subject). Lines are never changed or deleted.
func (t *Trail) Audit(ctx context.Context, actor, action, subject, detail string, now time.Time) error {
	err := t.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error {
		return Append(ctx, tx, Entry{At: now, Actor: actor, Action: action, Subject: subject, Detail: detail})
	}})
	if err != nil {
		return fmt.Errorf("cannot audit %s of %s: %w", action, subject, err)
	}
	return nil
}

// AuditHead returns where the chain ends; the zero Head when nothing was done
// yet. With an id it is where the chain ended when that entry was the newest,
// which has another ID when the entry is not there.
func (t *Trail) AuditHead(ctx context.Context, at ...int64) (Head, error) {
	upTo := int64(math.MaxInt64)
	if len(at) > 0 {
		upTo = at[0]
	}
	head, err := sqlite.One(ctx, t.db.Readers(), func(row sqlite.Row) (h Head, err error) {
		err = row.Scan(&h.ID, &h.Hash, &h.Count)
		return h, err
	}, `SELECT coalesce(max(id), 0), coalesce((SELECT hash FROM audit WHERE id <= ?1 ORDER BY id DESC LIMIT 1), ''), count(*)
		FROM audit WHERE id <= ?1`, upTo)
	if err != nil {
		return Head{}, fmt.Errorf("cannot read the head of the audit: %w", err)
	}
	return head, nil
}

// Append continues the chain inside an operation: what is rolled back with it
// leaves no trace and no gap. It is the only place that inserts into the audit.
// e.ID is not looked at.
func Append(ctx context.Context, tx *sqlite.Tx, e Entry) error {
	var prev string
	_, err := sqlite.One(ctx, tx, func(row sqlite.Row) (struct{}, error) {
		return struct{}{}, row.Scan(&e.ID, &prev)
	}, `SELECT 1 + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'audit'), 0),
		coalesce((SELECT hash FROM audit ORDER BY id DESC LIMIT 1), '')`)
	if err != nil {
		return fmt.Errorf("cannot find the end of the audit: %w", err)
	}
	for _, text := range []*string{&e.Actor, &e.Action, &e.Subject, &e.Detail} {
		*text = strings.ToValidUTF8(*text, "\uFFFD") // bytes that are no text would all hash alike
	}
	hash, err := link(prev, e)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO audit (id, at, actor, action, subject, detail, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, sqlite.Millis(e.At), e.Actor, e.Action, e.Subject, e.Detail, prev, hash)
	return err
}

// canonical is what is hashed of an entry: JSON without white space, members in
// the order of their names, the time in UTC milliseconds (as RFC 8785 has it,
// but U+2028 and U+2029 are escaped).
type canonical struct {
	Action  string `json:"action"`
	Actor   string `json:"actor"`
	At      int64  `json:"at"`
	Detail  string `json:"detail"`
	ID      int64  `json:"id"`
	Subject string `json:"subject"`
}

// link is the hash of an entry: SHA-256 over the hash before it (64 lower-case
// hex digits, nothing for the first) and the entry's canonical JSON.
func link(prev string, e Entry) (string, error) {
	text, err := protocol.Encode(canonical{
		Action: e.Action, Actor: e.Actor, At: sqlite.Millis(e.At), Detail: e.Detail, ID: e.ID, Subject: e.Subject,
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(prev), text...))
	return hex.EncodeToString(sum[:]), nil
}
