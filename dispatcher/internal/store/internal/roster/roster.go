// Package roster keeps who is out there: the stores of the register and the
// terminals that headquarters heard of, with their presence.
//
// It knows no run and no task. Its methods are promoted by store.Store.
package roster

import (
	"encoding/json"
	"time"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// Roster reads and writes places and terminals. Safe for concurrent use.
type Roster struct {
	db    *sqlite.DB
	known known
}

// New returns the roster in the database.
func New(db *sqlite.DB) *Roster { return &Roster{db: db} }

// Place is a store of the chain as the register knows it.
type Place struct {
	StoreID  string
	Name     string
	TimeZone string // IANA
	Labels   map[string]string
}

// Terminal is what headquarters knows of one terminal.
type Terminal struct {
	StoreID     string
	TerminalID  string
	Online      bool
	SessionID   string
	Since       time.Time // of Online
	LastSeenAt  time.Time
	ClockSkewMs *int64
	Hello       json.RawMessage // the last one, without its open list
}
