package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// oldDatabase is a file as the first schema left it: a run with one answered
// task, and three audit entries without hashes.
func oldDatabase(t *testing.T) *bundle {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("migrations", "0001_initial.sql"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	db := b.raw()
	for _, text := range []string{
		string(script),
		`PRAGMA application_id = 0x4d737472; PRAGMA user_version = 1`,
		`INSERT INTO runs (run_id, job, job_version, requested_by, reason, input, policy, columns, targets, created_at, barrier_at, makeup_until)
			VALUES ('R', 'collect_log', 1, 'ada', '', '{}', '{}', '[]', 1, 1, 2, 3)`,
		`INSERT INTO run_targets (run_id, store_id, name, time_zone, labels) VALUES ('R', '000000', 'x', 'UTC', '{}')`,
		`INSERT INTO tasks (task_id, run_id, store_id, terminal_id, attempts, created_at, status, attempt, settled_at)
			VALUES ('T000000', 'R', '000000', '', 1, 1, 'SUCCEEDED', 1, 5)`,
		`INSERT INTO attempts (task_id, attempt, store_id, terminal_id, granted_at, lease_until, received_at, answer, sha256, result)
			VALUES ('T000000', 1, '000000', 'pos1', 1, 1, 5, 'succeeded', '015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862', '{"a":1}')`,
		`INSERT INTO audit (at, actor, action, subject, detail) VALUES (1000, 'ada', 'run_created', 'R', 'x'), (2000, 'bob', 'run_cancelled', 'R', 'y'),
			(3000, 'ada', 'tested', 'R', '中文')`,
	} {
		b.run(db, text)
	}
	return b
}

func TestOlderDatabaseIsBroughtUpToDateAndItsAuditSealed(t *testing.T) {
	t.Parallel()
	b := oldDatabase(t)
	b.open()
	defer func() { b.close() }()
	run, err := b.GetRun(t.Context(), "R")
	if err != nil || run.ApprovedBy != "" {
		t.Errorf("%+v, %v", run, err)
	}
	a, err := b.GetResult(t.Context(), taskID(0), 1)
	if err != nil || a.Redacted != 0 || string(a.Result) != `{"a":1}` {
		t.Errorf("%+v, %v", a, err)
	}
	if k, err := b.GetTask(t.Context(), taskID(0)); err != nil || k.State.Status != task.Succeeded {
		t.Errorf("%+v, %v", k, err)
	}
	intact(t, b.path, 4, b.head())
	b.reopen()
	b.audited(1)
	intact(t, b.path, 5, b.head())
	entries := b.entries("headquarters")
	hash := ""
	for i, e := range b.entries("")[:3] {
		hash = linked(hash, int64(i+1), e.At.UnixMilli(), e.Actor, e.Action, e.Subject, e.Detail)
	}
	if len(entries) != 1 || entries[0].ID != 4 || entries[0].Action != "chain_started" || entries[0].At != time.UnixMilli(3000).UTC() ||
		entries[0].Detail != "3 entries were written before the chain, sha256 "+hash {
		t.Errorf("sealed with %+v, want %s", entries, hash)
	}
}

func TestTamperingWithSealedEntriesShows(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(b *bundle, db *sql.DB)
		kind store.AuditFaultKind
		id   int64
		text string
	}{
		{"edited", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET actor = 'eve' WHERE id = 2`) },
			store.AuditEdited, 4, "entries 1 to 3, which are older than the chain, are not those that entry 4 sealed"},
		{"removed", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id = 2`) },
			store.AuditRemoved, 3, "entry 2 is missing before entry 3"},
		{"exchanged", func(b *bundle, db *sql.DB) {
			for _, move := range [][2]int{{1, 99}, {2, 1}, {99, 2}} {
				b.run(db, `UPDATE audit SET id = ? WHERE id = ?`, move[1], move[0])
			}
		}, store.AuditEdited, 4, "are not those that entry 4 sealed"},
		{"seal removed", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id = 4`) },
			store.AuditRemoved, 5, "entry 4 is missing before entry 5"},
		{"one more made older", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET hash = '', prev_hash = '' WHERE id = 4`) },
			store.AuditBroken, 5, "entry 5 does not follow entry 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := oldDatabase(t)
			b.open()
			defer b.close()
			b.audited(2)
			intact(t, b.path, 6)
			tt.do(b, b.unguarded())
			r := verify(t, b.path)
			if len(r.Faults) == 0 || r.Faults[0].Kind != tt.kind || r.Faults[0].ID != tt.id || !strings.Contains(r.Faults[0].Text, tt.text) {
				t.Errorf("found %+v, want %s at %d: %s", r.Faults, tt.kind, tt.id, tt.text)
			}
		})
	}
}
