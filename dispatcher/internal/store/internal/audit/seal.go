package audit

import (
	"context"
	"fmt"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// sealing is the action of the entry that seals what is older than the chain.
const sealing = "chain_started"

// older are entries without a hash, folded into one as if they were chained.
type older struct {
	entries int64
	hash    string
}

func (o *older) add(e Entry) (err error) {
	o.entries++
	o.hash, err = link(o.hash, e)
	return err
}

// sealed is what the sealing entry says of them.
func (o *older) sealed() string {
	return fmt.Sprintf("%d entries were written before the chain, sha256 %s", o.entries, o.hash)
}

// chainBegun tells whether the chain of this database began before. The mark in
// meta says so, and so does every row in a table that came with the chain: the
// older entries are sealed before anything else can be written. Whoever takes
// away hashes and mark would have to take away the terminals' keys, too.
const chainBegun = `SELECT EXISTS (SELECT 1 FROM audit WHERE hash <> '')
	OR EXISTS (` + markOfChain + `)
	OR EXISTS (SELECT 1 FROM enrolments) OR EXISTS (SELECT 1 FROM terminal_keys) OR EXISTS (SELECT 1 FROM approvals)`

const (
	markOfChain = `SELECT 1 FROM meta WHERE key = 'audit_chain'`
	chainMarked = `SELECT EXISTS (` + markOfChain + `)`
)

func ask(ctx context.Context, q sqlite.Querier, question string) (bool, error) {
	return sqlite.One(ctx, q, func(row sqlite.Row) (yes bool, err error) {
		err = row.Scan(&yes)
		return yes, err
	}, question)
}

// seal begins the chain, once in the life of a database. Entries without a hash
// that turn up later lost it by another hand; they stay as they are, for the
// verification to tell.
func seal(ctx context.Context, tx *sqlite.Tx) error {
	begun, err := ask(ctx, tx, chainBegun)
	if err == nil && !begun {
		err = sealOlder(ctx, tx)
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO meta (key, value) VALUES ('audit_chain', 'begun') ON CONFLICT (key) DO NOTHING`)
	return err
}

func sealOlder(ctx context.Context, tx *sqlite.Tx) error {
	var before older
	var newest Entry
	for e, err := range sqlite.Stream(ctx, tx, scanEntry, selectEntries) {
		if err == nil {
			err = before.add(e.Entry)
		}
		if err != nil {
			return err
		}
		newest = e.Entry
	}
	if before.entries == 0 {
		return nil
	}
	return Append(ctx, tx, Entry{At: newest.At, Actor: Headquarters, Action: sealing, Subject: "audit", Detail: before.sealed()})
}

// chained is an entry as it is stored.
type chained struct {
	Entry
	prev, hash string
}

const entryColumns = `id, at, actor, action, subject, detail, prev_hash, hash`

const selectEntries = `SELECT ` + entryColumns + ` FROM audit ORDER BY id`

func scanEntry(row sqlite.Row) (chained, error) {
	var e chained
	err := row.Scan(&e.ID, sqlite.Moment{Into: &e.At}, &e.Actor, &e.Action, &e.Subject, &e.Detail, &e.prev, &e.hash)
	return e, err
}
