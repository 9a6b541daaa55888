package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

// killed is what a kill leaves of the bundle's database, in a folder of its own, without
// the files that were removed after it.
func (b *bundle) killed(removed ...string) (path string) {
	b.t.Helper()
	path = filepath.Join(b.t.TempDir(), "muster.db")
	for _, suffix := range []string{"", "-wal", "-shm", ".pace"} {
		content, err := os.ReadFile(b.path + suffix)
		if errors.Is(err, os.ErrNotExist) || slices.Contains(removed, suffix) {
			continue
		}
		info, statErr := os.Stat(b.path + suffix)
		if err := errors.Join(err, statErr); err != nil {
			b.t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path+suffix, content, 0o600), os.Chtimes(path+suffix, info.ModTime(), info.ModTime())); err != nil {
			b.t.Fatal(err)
		}
	}
	return path
}

// outpace commits until the database is older than what was committed last, by the clock
// of its file system, whose ticks are some milliseconds.
func (b *bundle) outpace() {
	b.t.Helper()
	for range 10_000 {
		b.audited(1)
		own, err := os.Stat(b.path)
		paced, paceErr := os.Stat(b.path + ".pace")
		if err := errors.Join(err, paceErr); err != nil {
			b.t.Fatal(err)
		}
		if own.ModTime().Before(paced.ModTime()) {
			return
		}
	}
	b.t.Fatal("the database is never older than its commits")
}

func opens(t *testing.T, path string) error {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: path, BallastBytes: -1})
	if err == nil {
		err = s.Close()
	}
	return err
}

// A commit that changed nothing leaves nothing in the log. A kill right after the first
// ones of a start, which are such, is no damage.
func TestAKillAfterCommitsThatChangedNothingIsNoDamage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.close()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(b.path, long, long); err != nil {
		t.Fatal(err)
	}
	b.open()
	for range 2 {
		if err := b.ExtendLeases(t.Context(), t0, t0); err != nil {
			t.Fatal(err)
		}
	}
	if log, err := os.Stat(b.path + "-wal"); err != nil || log.Size() > 0 {
		t.Fatalf("the log has %v bytes, %v", log, err)
	}
	if err := opens(t, b.killed()); err != nil {
		t.Error(err)
	}
	b.audited(1)
	if err := opens(t, b.killed()); err != nil {
		t.Error(err)
	}
	if err := opens(t, b.killed("-wal", "-shm")); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a log that held something was removed: %v", err)
	}
}

// TestALogThatWasRemovedWithItsIndexIsMissed after a kill: neither a start nor a backup
// takes what the database alone holds for all there was, and a restore is the way out.
func TestALogThatWasRemovedWithItsIndexIsMissed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(20)
	whole, err := store.MakeBackup(t.Context(), b.path, filepath.Join(t.TempDir(), "backup.db"))
	if err != nil {
		t.Fatal(err)
	}
	b.outpace()
	emptied := b.killed("-shm")
	if err := os.Truncate(emptied+"-wal", 0); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"both removed": b.killed("-wal", "-shm"), "emptied": emptied} {
		_, err := store.MakeBackup(t.Context(), path, filepath.Join(t.TempDir(), "backup.db"))
		for how, err := range map[string]error{"backed up": err, "opened": opens(t, path)} {
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "muster.db-wal is gone") || !strings.Contains(err.Error(), "dispatcher restore BACKUP") {
				t.Errorf("%s, %s: %v", what, how, err)
			}
		}
		restored, err := store.Restore(t.Context(), whole.Path, path, "ada", t0)
		if err != nil {
			t.Errorf("%s: restored: %v", what, err)
		}
		if err := opens(t, restored.Kept); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: what was replaced is as it was: %v", what, err)
		}
		if err := opens(t, path); err != nil {
			t.Errorf("%s: after the restore: %v", what, err)
		}
	}
	willing := b.killed("-wal", "-shm")
	if err := os.Remove(willing + ".pace"); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, willing); err != nil {
		t.Errorf("without what says so: %v", err)
	}
}

// TestALogThatWasTakenInIsNotMissed, whoever did it, and after a kill that left all.
func TestALogThatWasTakenInIsNotMissed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(20)
	b.outpace()
	all := b.killed()
	if err := opens(t, all); err != nil {
		t.Errorf("after a kill: %v", err)
	}
	if _, err := os.Stat(all + ".pace"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closed in order, and %v", err)
	}
	if err := opens(t, b.killed("-shm")); err != nil {
		t.Errorf("without the index, as after a power cut: %v", err)
	}

	other := &bundle{t: t, path: b.killed()}
	db := other.raw() // another program, such as the shell of SQLite
	if _, err := db.ExecContext(t.Context(), "SELECT count(*) FROM runs"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other.path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the log was not taken in: %v", err)
	}
	if err := opens(t, other.path); err != nil {
		t.Errorf("taken in by another program: %v", err)
	}

	if _, err := b.raw().ExecContext(t.Context(), "PRAGMA wal_checkpoint(RESTART)"); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, b.killed("-wal", "-shm")); err != nil {
		t.Errorf("removed when nothing was in it: %v", err)
	}
	b.outpace()
	if err := opens(t, b.killed("-wal", "-shm")); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("removed when something was in it again: %v", err)
	}

	// An older program closed it in order, and knows nothing of the file.
	sealed := b.killed()
	paced, err := os.ReadFile(sealed + ".pace")
	if err == nil {
		err = opens(t, sealed)
	}
	if err := errors.Join(err, os.WriteFile(sealed+".pace", paced, 0o600)); err != nil {
		t.Fatal(err)
	}
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(sealed+".pace", ahead, ahead); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, sealed); err != nil {
		t.Errorf("after an older program: %v", err)
	}
}
