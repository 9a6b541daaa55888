package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

// taken is a store of a process of its own folder, and what it said of its disk.
type taken struct {
	*bundle
	said chan error
}

func newTaken(t *testing.T) taken {
	t.Helper()
	b := taken{bundle: &bundle{t: t, path: filepath.Join(t.TempDir(), "data", "muster.db")}, said: make(chan error, 16)}
	if err := os.Mkdir(filepath.Dir(b.path), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: b.path, BallastBytes: -1, Trouble: func(err error) { b.said <- err }})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	t.Cleanup(func() { _ = s.Close() })
	b.create(5)
	return b
}

// hears waits for what the store says of itself.
func (b taken) hears(want error) error {
	b.t.Helper()
	select {
	case err := <-b.said:
		if !errors.Is(err, want) {
			b.t.Fatalf("heard %v, want %v", err, want)
		}
		return err
	case <-time.After(time.Minute):
		b.t.Fatalf("nothing was heard, want %v", want)
		return nil
	}
}

// What is written into a file that nobody will find again has no receipt, and all that
// had one is saved beside.
func TestDatabaseThatIsTakenAwayGivesNoMoreReceiptsAndIsSaved(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("x"), 0o600))
		},
		"log removed":    func(path string) error { return os.Remove(path + "-wal") },
		"folder removed": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"folder moved":   func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newTaken(t)
			if err := take(b.path); err != nil {
				t.Fatal(err)
			}
			if err := b.Audit(t.Context(), "ada", "tested", "it", "", t0); !errors.Is(err, store.ErrGone) {
				t.Errorf("written: %v", err)
			}
			told := b.hears(store.ErrGone).Error()
			if err := b.Health(t.Context()); !errors.Is(err, store.ErrGone) {
				t.Errorf("healthy: %v", err)
			}
			_, rest, _ := strings.Cut(told, "is saved in ")
			file, _, _ := strings.Cut(rest, ": put the files back")
			if _, err := store.InspectBackup(t.Context(), file); err != nil || !strings.Contains(told, "dispatcher restore "+file) {
				t.Fatalf("%s: %v", told, err)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			saved := &bundle{t: t, path: file}
			saved.open()
			defer saved.close()
			if _, err := saved.GetTask(t.Context(), taskID(4)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A database that breaks while it is open says so within a second or two, and when it
// is whole again.
func TestDatabaseThatBreaksWhileItIsOpenSaysSo(t *testing.T) {
	t.Parallel()
	b := newTaken(t)
	header := make([]byte, 100)
	file, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if err == nil {
		_, err = file.ReadAt(header, 0)
	}
	if err == nil {
		_, err = file.WriteAt(make([]byte, 100), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // before, it would drop SQLite's locks
	_ = b.hears(store.ErrCorrupt)
	if err := b.Health(t.Context()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("healthy: %v", err)
	}
	if _, err := file.WriteAt(header, 0); err != nil {
		t.Fatal(err)
	}
	_ = b.hears(nil)
	if err := b.Health(t.Context()); err != nil {
		t.Errorf("whole again: %v", err)
	}
}

// A file that is cut while it is open is found at once, however much is left of it: what
// is committed behind the cut would be lost with the next kill.
func TestDatabaseThatIsCutWhileItIsOpenGivesNoMoreReceipts(t *testing.T) {
	t.Parallel()
	for suffix, want := range map[string]error{"": store.ErrCorrupt, "-wal": store.ErrGone} {
		t.Run("muster.db"+suffix, func(t *testing.T) {
			t.Parallel()
			b := newTaken(t)
			b.close() // takes the log in
			said := b.said
			s, err := store.Open(t.Context(), store.Options{Path: b.path, BallastBytes: -1, Trouble: func(err error) { said <- err }})
			if err != nil {
				t.Fatal(err)
			}
			b.Store = s
			if err := b.Audit(t.Context(), "ada", "tested", "it", "", t0); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(b.path + suffix)
			if err == nil {
				err = os.Truncate(b.path+suffix, info.Size()-4096)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Audit(t.Context(), "ada", "tested", "more", "", t0); !errors.Is(err, want) {
				t.Errorf("written: %v", err)
			}
			_ = b.hears(want)
			if err := b.Health(t.Context()); !errors.Is(err, want) {
				t.Errorf("healthy: %v", err)
			}
		})
	}
}

func TestRemovedLockFileLetsNobodyIn(t *testing.T) {
	t.Parallel()
	b := newTaken(t)
	if err := os.Remove(b.path + ".lock"); err != nil {
		t.Fatal(err)
	}
	if s, err := store.Open(t.Context(), store.Options{Path: b.path}); !errors.Is(err, store.ErrLocked) {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("opened: %v", err)
	}
	file := filepath.Join(t.TempDir(), "b.db")
	if _, err := store.MakeBackup(t.Context(), b.path, file); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), file, b.path, "ada", t0); !errors.Is(err, store.ErrLocked) {
		t.Errorf("restored: %v", err)
	}
}
