package kills_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // an old database is made here

	"muster/tests/chaos/site"
	"muster/tests/chaos/strace"
	"muster/tests/programs"
)

// mostSyncs bounds the syncs of a first start. There are about twenty.
const mostSyncs = 60

// steps is how many syncs are passed over in a share.
func steps() int {
	if programs.Full() {
		return 1
	}
	return 7
}

// TestStartKilledAtAnySyncStartsAgain kills programs at each sync of their first
// start, and headquarters at each sync of a migration. strace counts by thread:
// some syncs are met more than once, and that none is left ends the test.
func TestStartKilledAtAnySyncStartsAgain(t *testing.T) {
	t.Parallel()
	strace.Needs(t)
	for name, c := range map[string]struct {
		prepare func(s *site.Site)
		command func(s *site.Site) []string
		ready   string
	}{
		"headquarters, first start": {func(*site.Site) {}, (*site.Site).ServeCommand, "headquarters is ready"},
		"headquarters, migration":   {func(s *site.Site) { old(t, s) }, (*site.Site).ServeCommand, "headquarters is ready"},
		"agent, first start":        {func(*site.Site) {}, func(s *site.Site) []string { return s.AgentCommand("A") }, "edge agent starts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed := 0
			for n := 1; n < mostSyncs; n += steps() {
				s := site.New(t, bin, site.Config{}, "A")
				c.prepare(s)
				survived := start(t, s, n, c.command(s), c.ready)
				if !survived {
					killed++
				}
				command := c.command(s)
				p := programs.Launch(t, command[0], command[1:]...)
				p.AwaitOutput(c.ready)
				p.Kill()
				if c.ready == "headquarters is ready" {
					if audit := s.Audit(); audit.Exit != 0 {
						t.Errorf("killed at sync %d, audit verify says: %s", n, audit.Output)
					}
				}
				if survived {
					break
				}
			}
			if killed < 1 {
				t.Error("nothing was killed")
			}
			t.Logf("killed %d times", killed)
		})
	}
}

// start says whether the program was ready before the sync at which it is killed.
func start(t *testing.T, s *site.Site, n int, command []string, ready string) (survived bool) {
	t.Helper()
	trace := filepath.Join(s.Dir, fmt.Sprintf("start-%d.trace", n))
	line := strace.Run(trace, []string{"-e", "trace=fsync", "-e", fmt.Sprintf("inject=fsync:signal=SIGKILL:when=%d", n)}, command)
	p := programs.Launch(t, line[0], line[1:]...)
	programs.Eventually(t, "a start or a death", func() bool {
		select {
		case <-p.Done():
			return true
		default:
			return strings.Contains(p.Output(), ready)
		}
	})
	if survived = strings.Contains(p.Output(), ready); survived {
		p.Kill()
		return survived
	}
	if code := p.ExitCode(); code != -1 {
		t.Fatalf("start %d ended by itself, with code %d: %s", n, code, p.Output())
	}
	return survived
}

// old makes a headquarters as the first schema left it: its database, and the reports
// folder, which only a first start makes.
func old(t *testing.T, s *site.Site) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "dispatcher", "internal", "store", "migrations", "0001_initial.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{s.Data(), s.Reports()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Data(), "muster.db")+"?_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := t.Context()
	for _, statement := range []string{string(script), "PRAGMA application_id = 0x4d737472", "PRAGMA user_version = 1"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
}
