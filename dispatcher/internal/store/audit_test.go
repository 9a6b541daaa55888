package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

func (b *bundle) audited(n int) {
	b.t.Helper()
	for i := range n {
		if err := b.Audit(b.t.Context(), "ada", "tested", fmt.Sprintf("thing %d", i), `with "quotes", <tags> & 中文`, at(time.Duration(i)*time.Second)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bundle) head() store.AuditHead {
	b.t.Helper()
	head, err := b.AuditHead(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return head
}

func verify(t testing.TB, path string, heads ...store.AuditHead) store.AuditReport {
	t.Helper()
	report, err := store.VerifyAudit(t.Context(), path, heads)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func intact(t testing.TB, path string, entries int, heads ...store.AuditHead) {
	t.Helper()
	r := verify(t, path, heads...)
	if len(r.Faults) != 0 || r.Wrong != 0 || r.Entries != int64(entries) || r.Head.Count != int64(entries) || r.Head.ID != int64(entries) {
		t.Errorf("%+v, want %d entries and nothing wrong", r, entries)
	}
}

// linked computes a hash from what the documentation says, apart from the
// program.
func linked(prev string, id, at int64, actor, action, subject, detail string) string {
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf(`%s{"action":%s,"actor":%s,"at":%d,"detail":%s,"id":%d,"subject":%s}`,
		prev, quoted(action), quoted(actor), at, quoted(detail), id, quoted(subject))))
	return hex.EncodeToString(sum[:])
}

// unguarded opens the file without the triggers that protect the audit.
func (b *bundle) unguarded() *sql.DB {
	b.t.Helper()
	db := b.raw()
	for _, trigger := range []string{"audit_no_update", "audit_no_delete", "audit_chained"} {
		b.run(db, "DROP TRIGGER "+trigger)
	}
	return db
}

func (b *bundle) run(db *sql.DB, text string, args ...any) {
	b.t.Helper()
	if _, err := db.ExecContext(b.t.Context(), text, args...); err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
}

// rewrite makes the chain fit again from an entry on, as somebody would who has
// the program and the file.
func (b *bundle) rewrite(db *sql.DB, from int64) {
	b.t.Helper()
	type row struct {
		id, at                                  int64
		actor, action, subject, detail, fromAll string
	}
	rows, err := db.QueryContext(b.t.Context(), `SELECT id, at, actor, action, subject, detail, hash FROM audit ORDER BY id`)
	if err != nil {
		b.t.Fatal(err)
	}
	var all []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.id, &r.at, &r.actor, &r.action, &r.subject, &r.detail, &r.fromAll); err != nil {
			b.t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		b.t.Fatal(err)
	}
	prev := ""
	for _, r := range all {
		if r.id < from {
			prev = r.fromAll
			continue
		}
		hash := linked(prev, r.id, r.at, r.actor, r.action, r.subject, r.detail)
		b.run(db, `UPDATE audit SET prev_hash = ?, hash = ? WHERE id = ?`, prev, hash, r.id)
		prev = hash
	}
}

func TestAuditIsAChainAsDocumented(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if head := b.head(); head != (store.AuditHead{}) {
		t.Errorf("the head of nothing is %+v", head)
	}
	intact(t, b.path, 0)
	b.audited(3)
	if err := b.Audit(t.Context(), "a\xff", "b", "\x00", "line\nline\u2028", at(time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	b.create(2)
	b.cancel()
	intact(t, b.path, 6, b.head())
	rows, err := b.raw().QueryContext(t.Context(), `SELECT id, at, actor, action, subject, detail, prev_hash, hash FROM audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	before, n := "", int64(0)
	for rows.Next() {
		var id, ms int64
		var actor, action, subject, detail, prev, hash string
		if err := rows.Scan(&id, &ms, &actor, &action, &subject, &detail, &prev, &hash); err != nil {
			t.Fatal(err)
		}
		n++
		if want := linked(before, id, ms, actor, action, subject, detail); id != n || prev != before || hash != want {
			t.Errorf("entry %d of %s: prev %s, hash %s, want %d, %s, %s", id, actor, prev, hash, n, before, want)
		}
		before = hash
	}
	if rows.Err() != nil || b.head() != (store.AuditHead{ID: 6, Hash: before, Count: 6}) {
		t.Errorf("head %+v after %s, %v", b.head(), before, rows.Err())
	}
}

func TestRunEntriesSayWhoWhatAndUnderWhichRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	places, tasks := targets(2)
	if _, err := b.CreateRun(t.Context(), newRun("R"), places, tasks, store.Request{User: "ada", RequestID: "q1", ContentHash: "c0ffee"}, t0); err != nil {
		t.Fatal(err)
	}
	b.cancel()
	var got []string
	for _, e := range b.entries("") {
		got = append(got, fmt.Sprintf("%d %s %s %s %s: %s", e.ID, e.At.Format(time.TimeOnly), e.Actor, e.Action, e.Subject, e.Detail))
	}
	want := []string{
		"1 02:00:00 ada run_created R: job collect_log v1, 2 targets, 2 tasks, request q1 with sha256 c0ffee, reason: morning check",
		"2 02:00:00 ada run_cancelled R: all stores, reason by_user: 2 tasks cancelled, 0 were settled",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// entries is what the audit says, of one actor unless that is empty.
func (b *bundle) entries(actor string) (all []store.AuditEntry) {
	b.t.Helper()
	err := store.ReadAudit(b.t.Context(), b.path, time.Time{}, actor, func(e store.AuditEntry) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func TestTamperingWithTheAuditShows(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		do    func(b *bundle, db *sql.DB)
		kind  store.AuditFaultKind
		id    int64
		text  string
		heads bool // only the noted heads can tell
	}{
		{"actor edited", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET actor = 'eve' WHERE id = 4`) },
			store.AuditEdited, 4, "entry 4 was changed", false},
		{"time edited", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET at = at + 1 WHERE id = 1`) },
			store.AuditEdited, 1, "entry 1 was changed", false},
		{"last detail edited", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET detail = '' WHERE id = 10`) },
			store.AuditEdited, 10, "entry 10 was changed", false},
		{"edited with its own hash", func(b *bundle, db *sql.DB) {
			b.run(db, `UPDATE audit SET detail = 'nothing' WHERE id = 4`)
			var prev string
			var ms int64
			var subject string
			if err := db.QueryRowContext(b.t.Context(), `SELECT prev_hash, at, subject FROM audit WHERE id = 4`).Scan(&prev, &ms, &subject); err != nil {
				b.t.Fatal(err)
			}
			b.run(db, `UPDATE audit SET hash = ? WHERE id = 4`, linked(prev, 4, ms, "ada", "tested", subject, "nothing"))
		}, store.AuditBroken, 5, "entry 5 does not follow entry 4", false},
		{"one removed", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id = 6`) },
			store.AuditRemoved, 7, "entry 6 is missing before entry 7", false},
		{"first ones removed", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id <= 3`) },
			store.AuditRemoved, 4, "entries 1 to 3 are missing before entry 4", false},
		{"removed and closed up", func(b *bundle, db *sql.DB) {
			b.run(db, `DELETE FROM audit WHERE id = 6`)
			for id := 7; id <= 10; id++ {
				b.run(db, `UPDATE audit SET id = ? WHERE id = ?`, id-1, id)
			}
		}, store.AuditEdited, 6, "entry 6 was changed", false},
		{"two exchanged", func(b *bundle, db *sql.DB) {
			for _, move := range [][2]int{{3, 99}, {4, 3}, {99, 4}} {
				b.run(db, `UPDATE audit SET id = ? WHERE id = ?`, move[1], move[0])
			}
		}, store.AuditEdited, 3, "entry 3 was changed", false},
		{"hash taken away", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET hash = '' WHERE id = 8`) },
			store.AuditUnchained, 8, "entry 8 has no hash", false},
		{"one put in at the end", func(b *bundle, db *sql.DB) {
			b.run(db, `INSERT INTO audit (at, actor, action, subject, detail) VALUES (1, 'x', 'x', 'x', 'x')`)
		}, store.AuditUnchained, 11, "entry 11 has no hash", false},
		{"all hashes taken away", func(b *bundle, db *sql.DB) { b.run(db, `UPDATE audit SET hash = '', prev_hash = ''`) },
			store.AuditUnchained, 10, "none of the 10 entries has a hash", false},
		{"the end cut", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit WHERE id > 7`) },
			store.AuditCut, 10, "entries 8 to 10 are missing at the end", false},
		{"everything cut", func(b *bundle, db *sql.DB) { b.run(db, `DELETE FROM audit`) },
			store.AuditCut, 10, "entries 1 to 10 are missing at the end", false},
		{"the end cut and its count", func(b *bundle, db *sql.DB) {
			b.run(db, `DELETE FROM audit WHERE id > 7`)
			b.run(db, `UPDATE sqlite_sequence SET seq = 7 WHERE name = 'audit'`)
		}, store.AuditCut, 10, "entry 10 was noted down, and the newest here is 7", true},
		{"cut and grown again", func(b *bundle, db *sql.DB) {
			b.run(db, `DELETE FROM audit WHERE id > 7`)
			b.run(db, `UPDATE sqlite_sequence SET seq = 7 WHERE name = 'audit'`)
			b.audited(5)
		}, store.AuditRewritten, 10, "entry 10 is not the one that was noted down", true},
		{"edited and chained anew", func(b *bundle, db *sql.DB) {
			b.run(db, `UPDATE audit SET actor = 'eve' WHERE id = 4`)
			b.rewrite(db, 4)
		}, store.AuditRewritten, 5, "entry 5 is not the one that was noted down", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.audited(5)
			heads := []store.AuditHead{b.head()}
			b.audited(5)
			heads = append(heads, b.head())
			intact(t, b.path, 10, heads...)
			tt.do(b, b.unguarded())
			blind, seeing := verify(t, b.path), verify(t, b.path, heads...)
			if tt.heads != (len(blind.Faults) == 0) {
				t.Errorf("without heads: %+v", blind.Faults)
			}
			for _, r := range []store.AuditReport{blind, seeing} {
				if len(r.Faults) == 0 && tt.heads {
					continue
				}
				if len(r.Faults) == 0 || r.Faults[0].Kind != tt.kind || r.Faults[0].ID != tt.id || !strings.Contains(r.Faults[0].Text, tt.text) {
					t.Errorf("found %+v, want %s at %d: %s", r.Faults, tt.kind, tt.id, tt.text)
				}
			}
			if len(seeing.Faults) == 0 {
				t.Error("heads did not help")
			}
		})
	}
}

func TestTextThatIsNoTextIsAnEdit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.Audit(t.Context(), "a", "b", "c", "\uFFFD", t0); err != nil {
		t.Fatal(err)
	}
	b.run(b.unguarded(), `UPDATE audit SET detail = CAST(x'ff' AS TEXT)`) // has the hash of U+FFFD
	if r := verify(t, b.path); len(r.Faults) != 1 || r.Faults[0].Kind != store.AuditEdited {
		t.Errorf("%+v", r)
	}
}

func TestAuditTakesOnlyWhatContinuesIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.audited(2)
	hash := strings.Repeat("0", 64)
	head := b.head().Hash
	insert := `INSERT OR REPLACE INTO audit (id, at, actor, action, subject, detail, prev_hash, hash) VALUES (%d, 1, 'x', 'x', 'x', 'x', '%s', '%s')`
	for _, refused := range []string{
		fmt.Sprintf(insert, 3, "", hash), fmt.Sprintf(insert, 3, hash, hash), fmt.Sprintf(insert, 3, head, ""),
		fmt.Sprintf(insert, 3, head, "short"), fmt.Sprintf(insert, 2, head, hash), fmt.Sprintf(insert, 1, head, hash),
	} {
		if err := tried(t, b.raw(), refused); err == nil {
			t.Errorf("%s was taken", refused)
		}
	}
	if err := tried(t, b.raw(), fmt.Sprintf(insert, 3, head, hash)); err != nil {
		t.Errorf("what continues it: %v", err)
	}
}

// TestRolledBackGroupsLeaveTheChainWhole mixes writes that fail into those that
// wait for the same commit: the group is undone and each runs again alone.
func TestRolledBackGroupsLeaveTheChainWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	var wg sync.WaitGroup
	const good, poisoned = 200, 50
	for i := range good {
		wg.Go(func() {
			if err := b.Audit(t.Context(), "ada", "tested", fmt.Sprint(i), "", t0); err != nil {
				t.Error(err)
			}
		})
		if i%(good/poisoned) == 0 {
			wg.Go(func() {
				places, tasks := targets(1)
				run := newRun(fmt.Sprintf("P%d", i)) // its task's id is taken: it fails behind its first rows
				if _, err := b.CreateRun(t.Context(), run, places, tasks, store.Request{}, t0); err == nil {
					t.Error("a poisoned run was created")
				}
				if _, err := b.DecideApproval(t.Context(), "none", "bob", store.ApprovalRejected, "", t0); !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	intact(t, b.path, good+1, b.head())
}

func keepAuditing(s *store.Store) error {
	var mu sync.Mutex
	ended := make(chan error)
	for side := range 8 {
		go func() {
			for i := 0; ; i++ {
				err := s.Audit(context.Background(), fmt.Sprintf("side %d", side), "counted", fmt.Sprint(i), "", t0)
				if err != nil {
					ended <- err
					return
				}
				mu.Lock()
				fmt.Println(side, i)
				mu.Unlock()
			}
		}()
	}
	return <-ended
}

func TestKillDuringAuditLeavesTheChainWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills processes")
	}
	t.Parallel()
	for range 4 {
		path := filepath.Join(t.TempDir(), "muster.db")
		cmd, lines := startChild(t, "audit", path)
		<-time.After(time.Duration(20+rand.IntN(200)) * time.Millisecond) // when, not whether: the kill is the event
		intactSoFar := verify(t, path)                                    // beside the one that writes
		told := kill(t, cmd, lines)
		left := verify(t, path) // what the log holds still
		if len(intactSoFar.Faults)+len(left.Faults) != 0 || left.Entries < int64(told) || intactSoFar.Entries > left.Entries {
			t.Errorf("%+v while it wrote, %+v after the kill, %d were promised", intactSoFar, left, told)
		}
		b := &bundle{t: t, path: path}
		b.open()
		b.audited(1)
		head := b.head()
		b.close()
		intact(t, path, int(left.Entries)+1, head)
		t.Logf("killed after %d entries, %d promised", left.Entries, told)
	}
}

func TestAuditIsReadOnACopyThatNobodyCanWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.audited(3)
	b.close()
	data, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	folder := filepath.Join(t.TempDir(), "backup")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "muster.db")
	if err := os.WriteFile(path, data, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
	intact(t, path, 3)
	if after, err := os.ReadFile(path); err != nil || !slices.Equal(after, data) {
		t.Errorf("reading changed the copy, %v", err)
	}
}

func TestVerifyRefusesWhatIsNoAudit(t *testing.T) {
	t.Parallel()
	other := &bundle{t: t, path: filepath.Join(t.TempDir(), "other.db")}
	other.run(other.raw(), "CREATE TABLE songs (title TEXT)")
	older := oldDatabase(t)
	tests := map[string]string{
		filepath.Join(t.TempDir(), "none.db"): "no such file",
		other.path:                            "it is a database of another program",
		older.path:                            "it has schema version 1, and version 2 is needed; start the dispatcher once",
	}
	for path, text := range tests {
		if _, err := store.VerifyAudit(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), path) {
			t.Errorf("verified %s: %v, want %q", path, err, text)
		}
	}
}
