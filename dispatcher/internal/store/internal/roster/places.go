package roster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

type placeCounts struct{ added, changed, retired int }

// ReplacePlaces makes the register exactly the given places, and notes what they
// were read from: see PlacesFrom. Those that are gone are retired, not deleted, and
// count as added when they return.
func (r *Roster) ReplacePlaces(ctx context.Context, source string, places []Place, now time.Time) (added, changed, retired int, err error) {
	var n placeCounts
	defer r.known.forget()
	err = r.db.Write(ctx, sqlite.Op{Committed: r.known.forget, Run: func(tx *sqlite.Tx) (err error) {
		if n, err = replacePlaces(ctx, tx, places, now); err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO meta (key, value) VALUES ('register', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
			placesNote(source, len(places)))
		return err
	}})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("cannot replace the register of %d places: %w", len(places), err)
	}
	return n.added, n.changed, n.retired, nil
}

// PlacesFrom reports whether the register is what ReplacePlaces last made of the
// source, and of how many places. Nothing else changes it.
func (r *Roster) PlacesFrom(ctx context.Context, source string) (places int, same bool, err error) {
	note, err := sqlite.One(ctx, r.db.Readers(), func(row sqlite.Row) (note string, err error) {
		err = row.Scan(&note)
		return note, err
	}, `SELECT value FROM meta WHERE key = 'register'`)
	if err != nil && !errors.Is(err, sqlite.ErrNotFound) {
		return 0, false, fmt.Errorf("cannot read what the register was made of: %w", err)
	}
	_, count, _ := strings.Cut(note, " ")
	places, err = strconv.Atoi(count)
	return places, err == nil && note == placesNote(source, places), nil
}

func placesNote(source string, places int) string { return fmt.Sprintf("%s %d", source, places) }

func replacePlaces(ctx context.Context, tx *sqlite.Tx, places []Place, now time.Time) (placeCounts, error) {
	var n placeCounts
	before, err := sqlite.List(ctx, tx, placesAlike(), selectPlaces)
	if err != nil {
		return n, err
	}
	known := make(map[string]Place, len(before))
	for _, p := range before {
		known[p.StoreID] = p
	}
	var differ []Place
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
		differ = append(differ, p)
	}
	err = tx.Insert(`INSERT OR REPLACE INTO places (store_id, name, time_zone, labels, active, changed_at)`, `(?, ?, ?, ?, 1, ?)`, len(differ),
		func(i int) []any {
			p := differ[i]
			return []any{p.StoreID, p.Name, p.TimeZone, sqlite.Document{Content: p.Labels}, sqlite.Millis(now)}
		})
	if err != nil {
		return n, fmt.Errorf("cannot store %d places: %w", len(differ), err)
	}
	for id := range known {
		if _, err := tx.Exec(`UPDATE places SET active = 0, changed_at = ? WHERE store_id = ?`, sqlite.Millis(now), id); err != nil {
			return n, fmt.Errorf("cannot retire place %s: %w", id, err)
		}
		n.retired++
	}
	return n, nil
}

// ListPlaces returns the active places, by id. They are read once and kept in memory:
// neither the list nor what is in it may be changed.
func (r *Roster) ListPlaces(ctx context.Context) ([]Place, error) {
	places, change := r.known.get()
	if places != nil {
		return places, nil
	}
	places, err := sqlite.List(ctx, r.db.Readers(), placesAlike(), selectPlaces)
	if err != nil {
		return nil, fmt.Errorf("cannot list places: %w", err)
	}
	places = slices.Clip(places)
	r.known.keep(places, change)
	return places, nil
}

// known is the register as it was last read.
type known struct {
	mu     sync.Mutex
	places []Place // nil: it is to be read
	change int     // the number of the last change
}

func (k *known) get() (places []Place, change int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.places, k.change
}

// keep keeps what was read, unless it changed since: change is as get told.
func (k *known) keep(places []Place, change int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.change == change {
		k.places = places
	}
}

func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.places = nil
	k.change++
}

const selectPlaces = `SELECT store_id, name, time_zone, labels FROM places WHERE active = 1 ORDER BY store_id`

// placesAlike scans places. Those that are labelled alike share their labels.
func placesAlike() func(sqlite.Row) (Place, error) {
	alike := map[string]map[string]string{}
	return func(row sqlite.Row) (p Place, err error) {
		var labels string
		if err = row.Scan(&p.StoreID, &p.Name, &p.TimeZone, &labels); err != nil {
			return p, err
		}
		var known bool
		if p.Labels, known = alike[labels]; !known {
			err = sqlite.Document{Content: &p.Labels}.Scan(labels)
			alike[labels] = p.Labels
		}
		return p, err
	}
}
