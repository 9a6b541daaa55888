package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muster/internal/protocol"
)

// millis is how a time is stored: UTC milliseconds, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment scans stored milliseconds; 0 and NULL are the zero time.
type moment struct{ into *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(src any) error {
	*m.into = time.Time{}
	switch v := src.(type) {
	case nil:
	case int64:
		if v != 0 {
			*m.into = time.UnixMilli(v).UTC()
		}
	default:
		return fmt.Errorf("cannot read a time from %T", src)
	}
	return nil
}

// raw scans JSON text byte for byte; NULL is nil.
type raw struct{ into *json.RawMessage }

// Scan implements sql.Scanner.
func (r raw) Scan(src any) error {
	*r.into = nil
	switch v := src.(type) {
	case nil:
	case string:
		*r.into = json.RawMessage(v)
	default:
		return fmt.Errorf("cannot read JSON text from %T", src)
	}
	return nil
}

// text binds JSON as TEXT, nil as NULL. STRICT tables refuse a blob there.
func text(doc json.RawMessage) any {
	if doc == nil {
		return nil
	}
	return string(doc)
}

// document binds a value as JSON text and scans it back into a pointer. What
// is a json.RawMessage inside keeps its bytes. NULL leaves the target alone.
type document struct{ value any }

// Value implements driver.Valuer.
func (d document) Value() (driver.Value, error) {
	b, err := protocol.Encode(d.value)
	return string(b), err
}

// Scan implements sql.Scanner.
func (d document) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), d.value)
	default:
		return fmt.Errorf("cannot read a document from %T", src)
	}
}

// optional is document, but NULL for a nil pointer or empty slice.
func optional(value any, present bool) any {
	if !present {
		return nil
	}
	return document{value}
}

// placeholders returns "(?, ?, …)" with n marks.
func placeholders(n int) string {
	return "(?" + strings.Repeat(", ?", n-1) + ")"
}
