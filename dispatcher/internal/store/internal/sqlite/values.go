package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muster/internal/protocol"
)

// Millis is how a time is stored: UTC milliseconds, 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Moment scans stored milliseconds; 0 and NULL are the zero time.
type Moment struct{ Into *time.Time }

// Scan implements sql.Scanner.
func (m Moment) Scan(src any) error {
	*m.Into = time.Time{}
	switch v := src.(type) {
	case nil:
	case int64:
		if v != 0 {
			*m.Into = time.UnixMilli(v).UTC()
		}
	default:
		return fmt.Errorf("cannot read a time from %T", src)
	}
	return nil
}

// Raw scans JSON text byte for byte; NULL is nil.
type Raw struct{ Into *json.RawMessage }

// Scan implements sql.Scanner.
func (r Raw) Scan(src any) error {
	*r.Into = nil
	switch v := src.(type) {
	case nil:
	case string:
		*r.Into = json.RawMessage(v)
	default:
		return fmt.Errorf("cannot read JSON text from %T", src)
	}
	return nil
}

// Text binds JSON as TEXT, nil as NULL. STRICT tables refuse a blob there.
func Text(doc json.RawMessage) any {
	if doc == nil {
		return nil
	}
	return string(doc)
}

// Document binds a value as JSON text and scans it back into a pointer. What
// is a json.RawMessage inside keeps its bytes. NULL leaves the target alone.
type Document struct{ Content any }

// Value implements driver.Valuer.
func (d Document) Value() (driver.Value, error) {
	b, err := protocol.Encode(d.Content)
	return string(b), err
}

// Scan implements sql.Scanner.
func (d Document) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), d.Content)
	default:
		return fmt.Errorf("cannot read a document from %T", src)
	}
}

// Optional is Document, but NULL for a nil pointer or empty slice.
func Optional(value any, present bool) any {
	if !present {
		return nil
	}
	return Document{value}
}

// Stored returns t as it comes back from the database.
func Stored(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// Placeholders returns "(?, ?, …)" with n marks.
func Placeholders(n int) string {
	return "(?" + strings.Repeat(", ?", n-1) + ")"
}
