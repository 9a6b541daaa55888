package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/internal/store"
)

const (
	pageBytes  = 4096
	logHeader  = 32             // of the write-ahead log
	frameBytes = 24 + pageBytes // a page of it
)

// logged is a database, closed when nothing was granted, and a log that grants
// one task a commit: ends[i] is where the log ended after i grants.
type logged struct {
	file, log, index []byte
	ends             []int
}

func newLogged(t *testing.T, grants int) logged {
	t.Helper()
	b := setup(t)
	b.create(grants)
	b.reopen() // what came before is in the file
	l := logged{ends: []int{0}}
	for i := range grants {
		b.grant(i, t0)
		info, err := os.Stat(b.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		l.ends = append(l.ends, int(info.Size()))
	}
	var err error
	if l.file, err = os.ReadFile(b.path); err != nil {
		t.Fatal(err)
	}
	if l.log, err = os.ReadFile(b.path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if l.index, err = os.ReadFile(b.path + "-shm"); err != nil {
		t.Fatal(err)
	}
	if last := l.ends[grants]; last != len(l.log) || (last-logHeader)%frameBytes != 0 {
		t.Fatalf("the log has %d bytes, and ended at %d", len(l.log), last)
	}
	return l
}

// put writes the file, a log and, unless it is nil, an index to a folder.
func (l logged) put(t *testing.T, log, index []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "muster.db")
	for name, content := range map[string][]byte{path: l.file, path + "-wal": log, path + "-shm": index} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// wantGrants opens the file with a log, and wants exactly the first n grants.
func (l logged) wantGrants(t *testing.T, what string, log, index []byte, n int) {
	t.Helper()
	b := &bundle{t: t, path: l.put(t, log, index)}
	s, err := store.Open(t.Context(), store.Options{Path: b.path, BallastBytes: -1})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	b.Store = s
	defer b.close()
	b.wantGranted(n)
	if t.Failed() {
		t.Fatal(what)
	}
}

// wantGranted checks that exactly the first n tasks run.
func (b *bundle) wantGranted(n int) {
	b.t.Helper()
	running, err := b.ListRunning(b.t.Context())
	if err != nil || len(running) != n {
		b.t.Errorf("%d tasks run, want %d, %v", len(running), n, err)
	}
	for _, r := range running {
		if r.Task.TaskID >= taskID(n) {
			b.t.Errorf("task %s runs, and its grant was refused", r.Task.TaskID)
		}
	}
}

// wantRefusal opens the file with a log, and backs it up, and wants to be told how to
// restore.
func (l logged) wantRefusal(t *testing.T, what string, log, index []byte) {
	t.Helper()
	path := l.put(t, log, index)
	refused := func(err error) bool {
		return errors.Is(err, store.ErrCorrupt) && strings.Contains(err.Error(), "muster.db-wal") &&
			strings.Contains(err.Error(), "dispatcher restore BACKUP --data "+filepath.Dir(path))
	}
	_, err := store.MakeBackup(t.Context(), path, filepath.Join(filepath.Dir(path), "backup.db"))
	if !refused(err) {
		t.Errorf("%s: backed up: %v", what, err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: path, BallastBytes: -1})
	if err == nil {
		_ = s.Close()
	}
	if !refused(err) {
		t.Errorf("%s: opened: %v", what, err)
	}
}

func TestLogThatWasCutAnywhereHoldsAPrefixOfTheCommits(t *testing.T) {
	t.Parallel()
	l := newLogged(t, 8)
	cuts := 0
	for cut := 0; cut <= len(l.log); cut++ {
		inFrame := (cut - logHeader) % frameBytes
		if cut > 1 && inFrame != 0 && inFrame != 1 && inFrame != 24 && inFrame != frameBytes/2 && inFrame != frameBytes-1 {
			continue
		}
		want := 0
		for want+1 < len(l.ends) && l.ends[want+1] <= cut {
			want++
		}
		l.wantGrants(t, fmt.Sprintf("cut at %d of %d", cut, len(l.log)), l.log[:cut], nil, want)
		if cut < len(l.log) && (cut < 2*logHeader || cut%5 == 0) {
			l.wantRefusal(t, fmt.Sprintf("cut at %d of %d, after a kill", cut, len(l.log)), l.log[:cut], l.index)
		}
		cuts++
	}
	t.Logf("%d cuts in %d frames of %d commits", cuts, len(l.log)/frameBytes, len(l.ends)-1)
}

// After a kill the index is there: a log that is missing then was removed. And a database
// that is missing or empty where files of an earlier life are is no new one.
func TestLogOrDatabaseThatWasRemovedIsRefusedAndNothingIsTouched(t *testing.T) {
	t.Parallel()
	l := newLogged(t, 3)
	l.wantRefusal(t, "the log removed", nil, l.index)
	for what, files := range map[string]map[string][]byte{
		"removed, the log there":      {"-wal": l.log},
		"removed, the index there":    {"-shm": l.index},
		"removed after a kill":        {"-wal": l.log, "-shm": l.index, ".lock": nil},
		"emptied after a kill":        {"": nil, "-wal": l.log, "-shm": l.index},
		"removed, the ballast there":  {".ballast": make([]byte, 9)},
		"emptied after a clean close": {"": nil, ".sha256": []byte("0\n")},
	} {
		path := filepath.Join(t.TempDir(), "muster.db")
		for suffix, content := range files {
			if err := os.WriteFile(path+suffix, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := store.Open(t.Context(), store.Options{Path: path})
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "dispatcher restore BACKUP --data "+filepath.Dir(path)) {
			t.Errorf("%s: %v", what, err)
		}
		for suffix, content := range files {
			if found, err := os.ReadFile(path + suffix); err != nil || suffix != ".lock" && !bytes.Equal(found, content) {
				t.Errorf("%s: muster.db%s was touched: %v", what, suffix, err)
			}
		}
		if _, there := files[""]; !there {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s: the database was made", what)
			}
		}
	}
}

// A log from which a byte of a commit is lost that others follow is no log that a
// crash cut short. The last commit alone may be what a crash left, unless the index
// beside it, which outlives a kill, says that it was synced.
func TestLogWithAFlippedByteIsRefusedUnlessACrashMayHaveLeftIt(t *testing.T) {
	t.Parallel()
	l := newLogged(t, 3)
	flip := func(at int) []byte {
		log := bytes.Clone(l.log)
		log[at] ^= 0x10
		return log
	}
	l.wantGrants(t, "nothing flipped", l.log, l.index, 3)
	for at := range logHeader {
		l.wantRefusal(t, fmt.Sprintf("header byte %d", at), flip(at), nil)
	}
	for frame := range (len(l.log) - logHeader) / frameBytes {
		begin := logHeader + frame*frameBytes
		for _, offset := range []int{1, 5, 9, 17, 21, 24, frameBytes - 1} {
			what := fmt.Sprintf("frame %d byte %d", frame, offset)
			l.wantRefusal(t, what+", after a kill", flip(begin+offset), l.index)
			switch {
			case begin < l.ends[2]:
				l.wantRefusal(t, what, flip(begin+offset), nil)
			case offset != 5: // which says where commits end
				l.wantGrants(t, what, flip(begin+offset), nil, 2)
			}
		}
	}
}

// What is left of a log that was longer, or of a commit that was undone, follows
// the newest commit in the file and is no damage.
func TestLogThatBeganAnewOverALongerOneIsNotTakenForDamaged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(40)
	for i := range 20 {
		b.grant(i, t0)
	}
	if _, err := b.raw().ExecContext(t.Context(), "PRAGMA wal_checkpoint(RESTART)"); err != nil {
		t.Fatal(err)
	}
	b.grant(20, t0)
	l := logged{}
	var err error
	for suffix, into := range map[string]*[]byte{"": &l.file, "-wal": &l.log, "-shm": &l.index} {
		if *into, err = os.ReadFile(b.path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	l.wantGrants(t, "begun anew", l.log, l.index, 21)
	l.wantGrants(t, "begun anew, without an index", l.log, nil, 21)
}

// content is everything that a database says, or the reason why it says nothing. It
// is opened as headquarters does.
func content(t *testing.T, path string) (string, error) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: path, BallastBytes: -1, Early: true})
	if err != nil {
		return "", err
	}
	if err := errors.Join(s.Sound(t.Context()), s.Close()); err != nil {
		return "", err
	}
	b := &bundle{t: t, path: path}
	db := b.raw()
	defer db.Close()
	var out bytes.Buffer
	for _, query := range []string{
		`SELECT run_id, job, input, policy, columns, targets, created_at, barrier_at, requested_by FROM runs`,
		`SELECT run_id, store_id, name, time_zone, labels FROM run_targets`,
		`SELECT task_id, run_id, store_id, status, attempt, attempts, holder_id, settled_at, reason FROM tasks`,
		`SELECT task_id, attempt, terminal_id, granted_at, received_at, answer, sha256, result FROM attempts`,
		`SELECT id, at, actor, action, subject, detail, prev_hash, hash FROM audit`,
		`SELECT key, value FROM meta`,
	} {
		if err := dump(t, &out, db, query); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

func dump(t *testing.T, out *bytes.Buffer, db *sql.DB, query string) error {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		fmt.Fprintln(out, values)
	}
	return rows.Err()
}

func TestFlippedByteOfADatabaseAtRestIsRefused(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	b.create(40)
	b.grant(0, t0)
	b.settle(success(0, 1, `{"till":"closed at 22:04"}`), t0)
	b.close()
	sound, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := os.ReadFile(b.path + ".sha256")
	if err != nil {
		t.Fatal(err)
	}
	want, err := content(t, b.path)
	if err != nil || !bytes.Contains([]byte(want), []byte("closed at 22:04")) {
		t.Fatal(want, err)
	}
	var offsets []int
	for offset := range 100 { // the header of the file
		offsets = append(offsets, offset)
	}
	for page := 0; page < len(sound); page += pageBytes {
		offsets = append(offsets, page+101, page+pageBytes/2, page+pageBytes-5)
	}
	silent := 0
	for _, offset := range offsets {
		for _, sealed := range []bool{true, false} { // false: it was not closed in order
			path := filepath.Join(t.TempDir(), "muster.db")
			flipped := bytes.Clone(sound)
			flipped[offset] ^= 0x15
			if err := os.WriteFile(path, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			if sealed {
				if err := os.WriteFile(path+".sha256", hash, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := content(t, path)
			switch {
			case sealed && !errors.Is(err, store.ErrCorrupt):
				t.Errorf("byte %d: opened: %v", offset, err)
			case err != nil && !bytes.Contains([]byte(err.Error()), []byte("muster.db")):
				t.Errorf("byte %d: the refusal names no file: %v", offset, err)
			case err == nil && got != want:
				silent++
			}
		}
	}
	t.Logf("%d flips; without the seal, %d went unseen", len(offsets), silent)
}

// SQLite sees no damage in a byte of a value, and after a crash there is no seal:
// the hash under which the terminal sent its result is what tells.
func TestFlippedByteOfAResultIsFoundWhereItIsReadAndBackedUp(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	b.create(2)
	for i := range 2 {
		b.grant(i, t0)
		b.settle(success(i, 1, fmt.Sprintf(`{"till %d":"closed at 22:04"}`, i)), t0)
	}
	b.close()
	content, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte(`{"till 0":"closed`))
	content[at+len(`{"till 0":"`)] ^= 1
	if err := errors.Join(os.WriteFile(b.path, content, 0o600), os.Remove(b.path+".sha256")); err != nil {
		t.Fatal(err)
	}
	b.open()
	defer b.close()
	if a, err := b.GetResult(t.Context(), taskID(0), 1); !errors.Is(err, store.ErrCorrupt) || a.Result != nil {
		t.Errorf("read %s, %v", a.Result, err)
	}
	if a, err := b.GetResult(t.Context(), taskID(1), 1); err != nil || a.Result == nil {
		t.Errorf("read %s, %v", a.Result, err)
	}
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, err := store.MakeBackup(t.Context(), b.path, file); !errors.Is(err, store.ErrCorrupt) || !bytes.Contains([]byte(err.Error()), []byte(taskID(0))) {
		t.Errorf("backed up: %v", err)
	}
	if left, err := filepath.Glob(file + "*"); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestDatabaseThatIsPutBackByHandIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(1) })
	b.grant(0, t0)
	b.close()
	copyFile(t, file, b.path)
	_, err := store.Open(t.Context(), store.Options{Path: b.path})
	if !errors.Is(err, store.ErrCorrupt) || !bytes.Contains([]byte(err.Error()), []byte("dispatcher restore BACKUP --data ")) {
		t.Errorf("opened: %v", err)
	}
}

// A kill breaks no promise: what was sealed once and written since is no damage.
func TestKilledStoreIsNotTakenForDamaged(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	b.create(1)
	b.close()
	cmd, lines := startChild(t, "audit", b.path)
	for range 50 {
		if !lines.Scan() {
			t.Fatal("the child wrote nothing")
		}
	}
	kill(t, cmd, lines)
	b.open()
	b.close()
}
