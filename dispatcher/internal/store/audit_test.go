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

// auditRow is an entry as it stands in the table.
type auditRow struct {
	id, at                                       int64
	actor, action, subject, detail, before, hash string
}

func (b *bundle) rows(db *sql.DB) (all []auditRow) {
	b.t.Helper()
	rows, err := db.QueryContext(b.t.Context(), `SELECT id, at, actor, action, subject, detail, prev_hash, hash FROM audit ORDER BY id`)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r auditRow
		if err := rows.Scan(&r.id, &r.at, &r.actor, &r.action, &r.subject, &r.detail, &r.before, &r.hash); err != nil {
			b.t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return all
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
	before := ""
	for i, r := range b.rows(b.raw()) {
		want := linked(before, r.id, r.at, r.actor, r.action, r.subject, r.detail)
		if r.id != int64(i+1) || r.before != before || r.hash != want {
			t.Errorf("entry %d of %s: prev %s, hash %s, want %d, %s, %s", r.id, r.actor, r.before, r.hash, i+1, before, want)
		}
		before = r.hash
		if head, err := b.AuditHead(t.Context(), r.id); err != nil || head != (store.AuditHead{ID: r.id, Hash: r.hash, Count: r.id}) {
			t.Errorf("the head at %d was %+v, %v", r.id, head, err)
		}
	}
	if b.head() != (store.AuditHead{ID: 6, Hash: before, Count: 6}) {
		t.Errorf("head %+v after %s", b.head(), before)
	}
}

func TestRunEntriesSayWhoWhatAndUnderWhichRequest(t *testing.T) {
	t.Parallel()
	for n, said := range map[int][2]string{1: {"1 target, 1 task", "1 task"}, 2: {"2 targets, 2 tasks", "2 tasks"}} {
		b := setup(t)
		places, tasks := targets(n)
		if _, err := b.CreateRun(t.Context(), newRun("R"), places, tasks, store.Request{User: "ada", RequestID: "q1", ContentHash: "c0ffee"}, t0); err != nil {
			t.Fatal(err)
		}
		b.cancel()
		var got []string
		for _, e := range b.entries("") {
			got = append(got, fmt.Sprintf("%d %s %s %s %s: %s", e.ID, e.At.Format(time.TimeOnly), e.Actor, e.Action, e.Subject, e.Detail))
		}
		want := []string{
			"1 02:00:00 ada run_created R: job collect_log v1, " + said[0] + ", request q1 with sha256 c0ffee, reason: morning check",
			"2 02:00:00 ada run_cancelled R: all stores, reason by_user: " + said[1] + " cancelled, 0 settled before",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the audit says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
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
