package roster

import (
	"context"
	"fmt"
	"maps"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

type placeCounts struct{ added, changed, retired int }

// ReplacePlaces makes the register exactly the given places. Those that are
// gone are retired, not deleted, and count as added when they return.
func (r *Roster) ReplacePlaces(ctx context.Context, places []Place, now time.Time) (added, changed, retired int, err error) {
	var n placeCounts
	err = r.db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) (err error) {
		n, err = replacePlaces(ctx, tx, places, now)
		return err
	}})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("cannot replace the register of %d places: %w", len(places), err)
	}
	return n.added, n.changed, n.retired, nil
}

func replacePlaces(ctx context.Context, tx *sqlite.Tx, places []Place, now time.Time) (placeCounts, error) {
	var n placeCounts
	before, err := sqlite.List(ctx, tx, scanPlace, selectPlaces)
	if err != nil {
		return n, err
	}
	known := make(map[string]Place, len(before))
	for _, p := range before {
		known[p.StoreID] = p
	}
	for _, p := range places {
		old, was := known[p.StoreID]
		delete(known, p.StoreID)
		switch {
		case !was:
			n.added++
		case old.Name != p.Name || old.TimeZone != p.TimeZone || !maps.Equal(old.Labels, p.Labels):
			n.changed++
		default:
			continue
		}
		_, err := tx.Exec(`INSERT INTO places (store_id, name, time_zone, labels, active, changed_at) VALUES (?, ?, ?, ?, 1, ?)
			ON CONFLICT (store_id) DO UPDATE SET name = excluded.name, time_zone = excluded.time_zone,
				labels = excluded.labels, active = 1, changed_at = excluded.changed_at`,
			p.StoreID, p.Name, p.TimeZone, sqlite.Document{Content: p.Labels}, sqlite.Millis(now))
		if err != nil {
			return n, fmt.Errorf("cannot store place %s: %w", p.StoreID, err)
		}
	}
	for id := range known {
		if _, err := tx.Exec(`UPDATE places SET active = 0, changed_at = ? WHERE store_id = ?`, sqlite.Millis(now), id); err != nil {
			return n, fmt.Errorf("cannot retire place %s: %w", id, err)
		}
		n.retired++
	}
	return n, nil
}

// ListPlaces returns the active places, by id.
func (r *Roster) ListPlaces(ctx context.Context) ([]Place, error) {
	places, err := sqlite.List(ctx, r.db.Readers(), scanPlace, selectPlaces)
	if err != nil {
		return nil, fmt.Errorf("cannot list places: %w", err)
	}
	return places, nil
}

const selectPlaces = `SELECT store_id, name, time_zone, labels FROM places WHERE active = 1 ORDER BY store_id`

func scanPlace(row sqlite.Row) (Place, error) {
	var p Place
	err := row.Scan(&p.StoreID, &p.Name, &p.TimeZone, sqlite.Document{Content: &p.Labels})
	return p, err
}
