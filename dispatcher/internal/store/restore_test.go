package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// later is when everything here is restored.
var later = at(30 * time.Minute)

// backedUp is a store and a backup of it.
func backedUp(t *testing.T, prepare func(*bundle)) (*bundle, string) {
	t.Helper()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	prepare(b)
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, err := store.MakeBackup(t.Context(), b.path, file); err != nil {
		t.Fatal(err)
	}
	return b, file
}

// restore closes the store, restores it and opens it again.
func (b *bundle) restore(file string, now time.Time) store.Restored {
	b.t.Helper()
	b.close()
	r, err := store.Restore(b.t.Context(), file, b.path, "host:ops", now)
	if err != nil {
		b.t.Fatal(err)
	}
	b.open()
	return r
}

func (b *bundle) stateOf(i int) task.State {
	b.t.Helper()
	k, err := b.GetTask(b.t.Context(), taskID(i))
	if err != nil {
		b.t.Fatal(err)
	}
	return k.State
}

func TestAnswerToWhatTheReplacedDatabaseGrantedIsStale(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(1) })
	old := b.grant(0, t0) // after the backup: the terminal works on it
	r := b.restore(file, later)
	defer b.close()
	if r.Open != 1 || r.Lost != 0 {
		t.Errorf("%+v", r)
	}
	k := b.grant(0, later) // the restored database grants it for the first time
	if k.State.Attempt <= old.State.Attempt+10 || k.Used() != 1 || k.Allowed() != 2 {
		t.Errorf("granted %+v, used %d of %d", k.State, k.Used(), k.Allowed())
	}
	got := b.settle(success(0, old.State.Attempt, `{"of":"the old attempt"}`), later)
	if got.Applied || got.Refusal != protocol.CodeStale || b.stateOf(0).Status != task.Running {
		t.Fatalf("an attempt that the replaced database granted was taken for the new one: %+v", got)
	}
	if got := b.settle(success(0, k.State.Attempt, `{"a":1}`), later); !got.Applied {
		t.Errorf("%+v", got)
	}
}

// The numbers of a restored database are what keeps the two attempts apart: the
// same story with the bare file, put back by hand, takes the wrong answer.
func TestFileThatIsPutBackByHandTakesTheWrongAnswer(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(1) })
	old := b.grant(0, t0)
	b.close()
	if err := errors.Join(os.Rename(file, b.path), os.Remove(b.path+".sha256")); err != nil {
		t.Fatal(err)
	}
	b.open()
	defer b.close()
	b.grant(0, later)
	if got := b.settle(success(0, old.State.Attempt, `{"of":"the old attempt"}`), later); !got.Applied {
		t.Errorf("the restore is not needed: %+v", got)
	}
}

func TestWhatRanAtTheBackupIsLostAndGrantedAgain(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) {
		b.create(4, func(r *store.Run) { r.Policy.Attempts = 2 })
		b.grant(0, t0) // runs its first attempt
		b.grant(1, t0) // runs its last one
		b.settle(failure(1, 1, task.Fail), t0)
		b.grant(1, at(time.Minute))
		b.grant(2, t0) // is done
		b.settle(success(2, 1, `{"a":1}`), t0)
	})
	r := b.restore(file, later)
	defer b.close()
	if r.Lost != 2 || r.Open != 2 || r.Kept == "" {
		t.Errorf("%+v", r)
	}
	for i, want := range []task.State{
		{Status: task.Failed, Attempt: 1},
		{Status: task.Failed, Attempt: 2, Settled: true},
		{Status: task.Succeeded, Attempt: 1, Settled: true},
		{Status: task.Pending},
	} {
		if got := b.stateOf(i); got != want {
			t.Errorf("task %d is %+v, want %+v", i, got, want)
		}
	}
	attempts, err := b.ListAttempts(t.Context(), taskID(0))
	if err != nil || len(attempts) != 1 || attempts[0].Failure == nil || attempts[0].Failure.Code != protocol.CodeLeaseExpired {
		t.Errorf("%+v, %v", attempts, err)
	}
	// What was granted before the restore is fenced, and its work is not lost: the
	// terminal keeps a stale success for the next grant.
	if got := b.settle(success(0, 1, `{"a":1}`), later); got.Refusal != protocol.CodeStale {
		t.Errorf("%+v", got)
	}
	k := b.grant(0, later)
	if k.Used() != 2 || k.Allowed() != 2 || k.State.Attempt != k.Attempts {
		t.Errorf("%+v, used %d of %d", k, k.Used(), k.Allowed())
	}
	answer := failure(0, k.State.Attempt, task.Fail)
	if got := b.settle(answer, later); !got.Task.State.Settled {
		t.Errorf("a third attempt is to follow: %+v", got.Task)
	}
	b.audited(1)
	intact(t, b.path, 3, b.head())
}

func TestEveryRestoreBeginsAHigherEpoch(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(1) })
	defer func() { b.close() }()
	var epochs []int64
	last := 0
	for round, now := range []time.Time{later, later, t0.AddDate(-20, 0, 0), later.Add(time.Hour)} {
		r := b.restore(file, now)
		epochs = append(epochs, r.Epoch)
		if stored, err := b.Epoch(t.Context()); err != nil || stored != r.Epoch {
			t.Errorf("round %d: epoch %d is stored, want %d, %v", round, stored, r.Epoch, err)
		}
		k := b.grant(0, later)
		if k.State.Attempt <= last+10 {
			t.Errorf("round %d: attempt %d after %d", round, k.State.Attempt, last)
		}
		last = k.State.Attempt
	}
	t.Log(epochs)
}

// TestTwoRestoresOfOneBackupThatKnowNothingOfEachOtherDiffer, unless they are made in
// the same minute.
func TestTwoRestoresOfOneBackupThatKnowNothingOfEachOtherDiffer(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(1) })
	b.close()
	var epochs [2]int64
	for i := range epochs {
		r, err := store.Restore(t.Context(), file, filepath.Join(t.TempDir(), "muster.db"), "host:ops", later.Add(time.Duration(i)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		epochs[i] = r.Epoch
	}
	if epochs[0] >= epochs[1] {
		t.Errorf("epochs %v", epochs)
	}
}

// TestARestoreInPlaceOfALostDatabaseGoesAboveItsBackup: nothing but the backup knows
// the epoch that it was made in, and the clock stands before it.
func TestARestoreInPlaceOfALostDatabaseGoesAboveItsBackup(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(1) })
	first := b.restore(file, later)
	granted := b.grant(0, later).State.Attempt
	file = filepath.Join(t.TempDir(), "again.db")
	if _, err := store.MakeBackup(t.Context(), b.path, file); err != nil {
		t.Fatal(err)
	}
	b.close()
	b.path = filepath.Join(t.TempDir(), "muster.db")
	r, err := store.Restore(t.Context(), file, b.path, "host:ops", t0.AddDate(-20, 0, 0))
	if err != nil || r.Epoch <= first.Epoch || r.Kept != "" {
		t.Fatalf("%+v after epoch %d: %v", r, first.Epoch, err)
	}
	b.open()
	defer b.close()
	if k := b.grant(0, later); k.State.Attempt <= granted+10 {
		t.Errorf("attempt %d after %d", k.State.Attempt, granted)
	}
}

func TestRunsOrderedAfterARestoreAreNumberedAsEver(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) {
		if err := b.NoteNumber(b.t.Context(), 5); err != nil {
			b.t.Fatal(err)
		}
	})
	if err := b.NoteNumber(t.Context(), 77); err != nil {
		t.Fatal(err)
	}
	b.restore(file, later)
	defer b.close()
	b.create(1)
	if k := b.grant(0, later); k.State.Attempt != 1 || k.Attempts != 2 {
		t.Errorf("%+v", k)
	}
	if n, err := b.LastNumber(t.Context()); err != nil || n != 77 {
		t.Errorf("terminals would take what is said for a replay: number %d, %v", n, err)
	}
}

func TestRestoreKeepsTheReplacedDatabase(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(3) })
	b.grant(0, t0)
	r := b.restore(file, later)
	if want := b.path + ".replaced-20260917T023000Z"; r.Kept != want {
		t.Errorf("kept as %s, want %s", r.Kept, want)
	}
	kept := &bundle{t: t, path: r.Kept}
	kept.open()
	if got := kept.stateOf(0); got.Status != task.Running {
		t.Errorf("%+v", got)
	}
	kept.close()
	second := b.restore(file, later)
	if second.Kept != r.Kept+"-2" {
		t.Errorf("kept as %s", second.Kept)
	}
	b.close()
	if err := errors.Join(os.Remove(b.path), os.Remove(b.path+".sha256")); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Restore(t.Context(), file, b.path, "host:ops", later); err != nil || r.Kept != "" {
		t.Errorf("into an empty place: %+v, %v", r, err)
	}
	entries, err := os.ReadDir(filepath.Dir(b.path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".new") || strings.Contains(e.Name(), ".restoring") {
			t.Errorf("%s was left", e.Name())
		}
	}
	if info, err := os.Stat(b.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestADatabaseThatWasClosedInOrderIsKeptAsOneFile, and its hash, with no log that holds nothing.
func TestADatabaseThatWasClosedInOrderIsKeptAsOneFile(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(3) })
	b.close()
	r, err := store.Restore(t.Context(), file, b.path, "host:ops", later)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(r.Kept + "*")
	if want := []string{r.Kept, r.Kept + ".sha256"}; err != nil || !slices.Equal(kept, want) {
		t.Errorf("kept are %v, %v; want %v", kept, err, want)
	}
	b.open()
}

func TestRestoreRefusesAndChangesNothing(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(2000) })
	defer func() { b.close() }()
	if _, err := store.Restore(t.Context(), file, b.path, "ops", later); !errors.Is(err, store.ErrLocked) {
		t.Errorf("under a running dispatcher: %v", err)
	}
	b.grant(0, t0)
	b.close()
	folder := t.TempDir()
	damagedFile, newer := filepath.Join(folder, "damaged.db"), filepath.Join(folder, "newer.db")
	copyFile(t, file, damagedFile)
	overwrite(t, damagedFile, 4096*20, strings.Repeat("\xde\xad\xbe\xef", 1024))
	copyFile(t, file, newer)
	(&bundle{t: t, path: newer}).exec("PRAGMA user_version = 9")
	foreign := filepath.Join(folder, "foreign.db")
	(&bundle{t: t, path: foreign}).exec("CREATE TABLE songs (title TEXT)")
	for name, c := range map[string]struct {
		file string
		want error
	}{
		"damaged": {damagedFile, store.ErrCorrupt}, "newer": {newer, store.ErrNewerSchema},
		"missing": {filepath.Join(folder, "none.db"), os.ErrNotExist}, "foreign": {foreign, nil},
	} {
		_, err := store.Restore(t.Context(), c.file, b.path, "ops", later)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.open()
	if epoch, err := b.Epoch(t.Context()); err != nil || epoch != 0 || b.stateOf(0).Status != task.Running {
		t.Errorf("something was changed: epoch %d, %v, %+v", epoch, err, b.stateOf(0))
	}
	if left, err := filepath.Glob(b.path + ".*"); err != nil || len(left) > 3 { // lock, ballast and hash
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRestoreOverADamagedDatabase(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(100) })
	b.close()
	if err := os.WriteFile(b.path, []byte(strings.Repeat("all work and no play\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), store.Options{Path: b.path}); !errors.Is(err, store.ErrCorrupt) {
		t.Fatal(err)
	}
	r, err := store.Restore(t.Context(), file, b.path, "ops", later)
	if err != nil || r.Epoch == 0 {
		t.Fatal(r, err)
	}
}

// A restore that is cut off between its two renames must not be taken for a new
// place: an empty database would be made there.
func TestCutOffRestoreIsNotOpened(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) { b.create(1) })
	b.close()
	if err := os.Rename(b.path, b.path+".restoring"); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), store.Options{Path: b.path})
	if !errors.Is(err, store.ErrRestoring) || !strings.Contains(err.Error(), "run dispatcher restore again") {
		t.Errorf("opened: %v", err)
	}
	if _, err := store.Restore(t.Context(), file, b.path, "ops", later); err != nil {
		t.Fatal(err)
	}
	b.open()
	defer b.close()
	if got := b.stateOf(0); got.Status != task.Pending {
		t.Errorf("%+v", got)
	}
}

func (b *bundle) exec(text string) {
	b.t.Helper()
	db := b.raw()
	b.run(db, text)
	if err := db.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("cannot copy: %w", err))
	}
}

// keepRestoring restores the backup beside the database over and over.
func keepRestoring(path string) error {
	fmt.Println("open")
	for {
		if _, err := store.Restore(context.Background(), path+".backup", path, "ops", later); err != nil {
			return err
		}
		fmt.Println("restored")
	}
}

func TestKillDuringRestoreLeavesAWholeDatabaseOrSaysSo(t *testing.T) {
	t.Parallel()
	cutOff := 0
	for range 6 {
		b, file := backedUp(t, func(b *bundle) { b.create(200) })
		b.close()
		copyFile(t, file, b.path+".backup")
		cmd, lines := startChild(t, "restore", b.path)
		<-time.After(time.Duration(20+rand.IntN(200)) * time.Millisecond) // when, not whether: the kill is the event
		kill(t, cmd, lines)
		s, err := store.Open(t.Context(), store.Options{Path: b.path})
		if errors.Is(err, store.ErrRestoring) {
			cutOff++
			if _, err := store.Restore(t.Context(), file, b.path, "ops", later); err != nil {
				t.Fatal(err)
			}
			s, err = store.Open(t.Context(), store.Options{Path: b.path})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, open, err := s.CountTasks(t.Context(), "R"); err != nil || open != 200 {
			t.Errorf("%d tasks are open, %v", open, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of 6 were cut off between the renames", cutOff)
}
