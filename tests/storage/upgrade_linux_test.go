package storage_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"muster/tests/disk"
	"muster/tests/programs"
)

// olderDatabase makes the database of the first schema version, with a run, a
// megabyte of entries that the upgrade has to seal, and the hash by which it was
// closed.
func olderDatabase(t *testing.T, path string) (hash string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "..", "dispatcher", "internal", "store", "migrations", "0001_initial.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(script),
		`PRAGMA application_id = 0x4d737472; PRAGMA user_version = 1`,
		`INSERT INTO runs (run_id, job, job_version, requested_by, reason, input, policy, columns, targets, created_at, barrier_at, barrier_closed_at, makeup_until, closed_at)
			VALUES ('R', 'probe', 1, 'ada', '', '{}', '{}', '[]', 1, 1, 2, 2, 3, 3)`,
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 8000)
			INSERT INTO audit (at, actor, action, subject, detail) SELECT i, 'ada', 'tested', 'R', hex(randomblob(60)) FROM n`,
	} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	hash = hashOf(t, path)
	put(t, path+".sha256", []byte(hash+"\n"))
	return hash
}

func hashOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// TestUpgradeWithoutRoomIsRefusedAndChangesNothing: there is room to open the
// database and none to bring it up to date; then there is not a byte of it.
func TestUpgradeWithoutRoomIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 1, 8)
	path := filepath.Join(s.data, "muster.db")
	hash := olderDatabase(t, path)
	for _, left := range []int64{100 << 10, 0} {
		disk.Fill(t, s.data)
		filler := disk.Filler(s.data)
		if err := os.Truncate(filler, sizeOf(t, filler)-left); err != nil {
			t.Fatal(err)
		}
		refused := programs.Launch(t, filepath.Join(bin, "dispatcher"), "serve", "--config", s.config)
		if refused.ExitCode() == 0 {
			t.Fatal("it was brought up to date without room")
		}
		for _, want := range []string{path, "no room to store anything", "it is as it was", "make room on the disk of " + s.data, "start again"} {
			if !strings.Contains(refused.Output(), want) {
				t.Errorf("with %d bytes: %q is not in %s", left, want, refused.Output())
			}
		}
		if hashOf(t, path) != hash {
			t.Errorf("with %d bytes: the database is not as it was", left)
		}
		if seal, err := os.ReadFile(path + ".sha256"); err != nil || !bytes.Contains(seal, []byte(hash)) {
			t.Errorf("with %d bytes: the seal: %s, %v", left, seal, err)
		}
	}
	disk.Free(t, s.data)
	s.serve()
	if !s.known("R") {
		t.Error("the run is lost")
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
