package app_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"muster/internal/protocol"
	"muster/tests/fleet"
)

// TestASetClockHidesNoPanic: a message that cannot be taken in is told once a
// minute, also by a clock that was set back since.
func TestASetClockHidesNoPanic(t *testing.T) {
	t.Parallel()
	hq := setupStepping(t, []string{"A"}, nil, nil)
	hq.forbidHellos()
	tech := hq.watching("wang")
	var last protocol.Alarm
	panics := func() {
		t.Helper()
		before := last.ID
		terminal := hq.terminal("A", fleet.Options{})
		defer terminal.Close()
		tech.await("the alarm", func(m fleet.Message) bool {
			return m.Topic == hq.topics.Alarm(protocol.SeverityCritical, "message_panicked") &&
				protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &last) == nil && last.ID != before
		})
	}
	panics()
	hq.set(-26 * time.Hour)
	run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":60}`)
	tech.awaitState("the new time", run.RunID, isOff(-26*time.Hour))
	panics()
}

// forbidHellos has the database take none.
func (hq *headquarters) forbidHellos() {
	hq.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(hq.cfg.DataFolder, "muster.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		hq.t.Fatal(err)
	}
	if _, err := db.ExecContext(hq.t.Context(), `CREATE TRIGGER no_hello BEFORE INSERT ON terminals WHEN NEW.hello <> '' BEGIN SELECT RAISE(ABORT, 'no hello'); END`); err != nil {
		hq.t.Error(err)
	}
	if err := db.Close(); err != nil {
		hq.t.Error(err)
	}
}
