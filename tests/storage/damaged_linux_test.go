package storage_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// misfile changes a key in an index of a database that was killed: the row behind it
// is not found by it any more.
func misfile(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	var key string
	err = db.QueryRowContext(t.Context(), "SELECT task_id FROM tasks ORDER BY task_id LIMIT 1 OFFSET 100").Scan(&key)
	if err := errors.Join(err, db.Close()); err != nil { // which leaves no log
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const pageBytes, leafOfIndex = 4096, 0x0a // section 1.6 of the SQLite file format
	for page := pageBytes; page < len(content); page += pageBytes {
		if at := bytes.Index(content[page:page+pageBytes], []byte(key)); content[page] == leafOfIndex && at >= 0 {
			content[page+at+len(key)-1] ^= 0x02
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("no index holds the key")
}

// TestDamagedHeadquartersAnswersNobodyAndSaysHowToRestore: offers may go out while the
// database is checked; nothing that was said meanwhile is answered.
func TestDamagedHeadquartersAnswersNobodyAndSaysHowToRestore(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 3000, 128)
	s.serve()
	for range 8 {
		s.ordered()
	}
	s.hq.Kill()
	misfile(t, filepath.Join(s.data, "muster.db"))
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	s.hq = programs.Launch(t, filepath.Join(bin, "dispatcher"), "serve", "--config", s.config)
	var offers atomic.Int64
	for alone := true; alone; {
		terminal, err := fleet.Start(t.Context(), fleet.Options{Addr: s.addr, Topics: topics, Store: "S00000", Terminal: "till",
			Execute: func(protocol.Offer, int) fleet.Reply { return fleet.Reply{Result: []byte(`{}`)} },
			Observe: func(kind string, o protocol.Order) {
				if offers.Add(1); kind != "offer" {
					t.Errorf("a terminal was told %s of %q", kind, o.TaskID)
				}
			}})
		select {
		case <-s.hq.Done():
			alone = false
		case <-time.After(5 * time.Millisecond):
		}
		if err == nil {
			<-s.hq.Done()
			terminal.Close()
		}
	}
	code, said := s.hq.ExitCode(), s.hq.Output()
	if code == 0 || strings.Count(said, "to restore: stop the dispatcher and run: dispatcher restore BACKUP --data "+s.data) != 1 {
		t.Errorf("it ended with %d: %s", code, said)
	}
	t.Logf("%d offers went out; it said: %s", offers.Load(), said)
}
