package site

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the database is looked at from outside

	"muster/tests/programs"
)

// Rows runs a SELECT on the database in a data folder as it is, and returns its
// rows, the columns parted by blanks.
func Rows(t testing.TB, data, query string, args ...any) (rows []string) {
	t.Helper()
	db := open(t, data)
	defer db.Close()
	found, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	columns, err := found.Columns()
	for err == nil && found.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err = found.Scan(into...); err == nil {
			rows = append(rows, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
		}
	}
	if err == nil {
		err = found.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// open opens the database for reading; it may be in use.
func open(t testing.TB, data string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "muster.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// Number runs a SELECT of one number.
func Number(t testing.TB, data, query string, args ...any) (n int64) {
	t.Helper()
	rows := Rows(t, data, query, args...)
	if len(rows) != 1 {
		t.Fatalf("%s: %d rows", query, len(rows))
	}
	if _, err := fmt.Sscan(rows[0], &n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// None waits until a SELECT finds no row any more; what names that.
func None(t testing.TB, data, what, query string, args ...any) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Logf("there still are %q", left)
		}
	}()
	programs.Seldom(t, what, func() bool {
		left = Rows(t, data, query, args...)
		return len(left) == 0
	})
}

// Rows is Rows of the site's database.
func (s *Site) Rows(query string, args ...any) []string {
	s.t.Helper()
	return Rows(s.t, s.Data(), query, args...)
}

// None is None of the site's database.
func (s *Site) None(what, query string, args ...any) {
	s.t.Helper()
	None(s.t, s.Data(), what, query, args...)
}
