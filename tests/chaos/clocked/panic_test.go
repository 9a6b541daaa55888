package clocked_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestASetClockHidesNoPanic: a message over which headquarters breaks, again and
// again, is told once a minute, also by a clock that was set back since.
func TestASetClockHidesNoPanic(t *testing.T) {
	t.Parallel()
	s := plain(t, "true", "A")
	s.headquarters(0)
	s.forbidHellos()
	s.terminal("A", 0)
	const told, stepped = "a message made a step panic", "headquarters' time stepped"
	s.HQ.AwaitOutput(told)
	s.set("hq", -26*time.Hour)
	s.HQ.AwaitOutput(stepped)
	const patience = 20 * time.Second // the terminal says its hello again until it is answered
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(patience); ; {
		before, after, _ := strings.Cut(s.HQ.Output(), stepped)
		if strings.Count(before, told) > 1 {
			t.Fatalf("told more than once a minute:\n%s", before)
		}
		if strings.Contains(after, told) {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("not told any more after %s:\n%s", patience, s.HQ.Output())
		}
	}
}

// forbidHellos has the database take none.
func (s shop) forbidHellos() {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Data(), "muster.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := db.ExecContext(s.t.Context(), `CREATE TRIGGER no_hello BEFORE INSERT ON terminals WHEN NEW.hello <> ''
		BEGIN SELECT RAISE(ABORT, 'no hello'); END`); err != nil {
		s.t.Error(err)
	}
	if err := db.Close(); err != nil {
		s.t.Error(err)
	}
}
