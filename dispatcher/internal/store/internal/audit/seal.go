package audit

import (
	"context"
	"errors"
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

// seal does nothing once there is a chain: an entry without a hash that turns
// up later was not written by this program.
func seal(ctx context.Context, tx *sqlite.Tx) error {
	_, err := sqlite.One(ctx, tx, func(row sqlite.Row) (id int64, err error) {
		err = row.Scan(&id)
		return id, err
	}, `SELECT id FROM audit WHERE hash <> '' LIMIT 1`)
	if !errors.Is(err, sqlite.ErrNotFound) {
		return err
	}
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
