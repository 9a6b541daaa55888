package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/internal/store"
)

// misfiled is a database whose index has a key that its table has not, as after a
// crash: without a seal.
func misfiled(t *testing.T, tasks int) *bundle {
	t.Helper()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	b.create(tasks)
	b.close()
	content, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	const leafOfIndex = 0x0a // section 1.6 of the SQLite file format
	for page := pageBytes; page < len(content); page += pageBytes {
		at := bytes.Index(content[page:page+pageBytes], []byte(taskID(tasks/2)))
		if content[page] == leafOfIndex && at >= 0 {
			content[page+at] ^= 0x02
			if err := errors.Join(os.WriteFile(b.path, content, 0o600), os.Remove(b.path+".sha256")); err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	t.Fatal("no index holds the key")
	return nil
}

func TestEarlyStoreReadsAndStoresNothingForOthersBeforeItIsSound(t *testing.T) {
	t.Parallel()
	b := misfiled(t, 2000)
	for range 2 { // a close in order does not make it sound
		s, err := store.Open(t.Context(), store.Options{Path: b.path, Early: true})
		if err != nil {
			t.Fatal(err)
		}
		if runs, err := s.ListOpenRuns(t.Context()); err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
		early := s.ResetPresence(store.Owed(t.Context(), "presence"), t0)
		if err := s.Beat(t.Context(), t0); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("a write: %v", err)
		}
		if err := s.Sound(t.Context()); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "dispatcher restore BACKUP --data "+filepath.Dir(b.path)) {
			t.Errorf("it is %v", err)
		}
		late := s.ResetPresence(store.Owed(t.Context(), "presence"), t0)
		if (early != nil && !errors.Is(early, store.ErrOwed)) || !errors.Is(late, store.ErrOwed) {
			t.Errorf("what is owed: %v, then %v", early, late)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(b.path + ".sha256"); !os.IsNotExist(err) {
			t.Errorf("what is damaged was sealed: %v", err)
		}
	}
}

func TestEarlyStoreThatIsClosedOrLeftBeforeItsEndSaysSo(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	b.create(2000)
	b.close()
	if err := os.Remove(b.path + ".sha256"); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Path: b.path, Early: true})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Sound(gone); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("who went away was told %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err = s.Sound(t.Context())
	if err != nil && !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, missing := os.Stat(b.path + ".sha256"); (err == nil) != (missing == nil) {
		t.Errorf("sealed: %v, although the check ended with %v", missing, err)
	}
	if err := s.Beat(t.Context(), t0); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
	b.open()
	b.close()
}

// Whatever a start stumbles over first, what it says is how to restore.
func TestEarlyStoreWithAnyBrokenRootSaysHowToRestore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(300)
	db := b.raw()
	var text string
	err := db.QueryRowContext(t.Context(), "SELECT json_group_object(name, rootpage) FROM sqlite_schema WHERE rootpage > 0").Scan(&text)
	roots := map[string]int64{}
	if err = errors.Join(err, json.Unmarshal([]byte(text), &roots), db.Close()); err != nil || len(roots) < 20 {
		t.Fatalf("%d roots, %v", len(roots), err)
	}
	b.close()
	if err := os.Remove(b.path + ".sha256"); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range roots {
		broken := bytes.Clone(whole)
		copy(broken[(page-1)*4096:page*4096], bytes.Repeat([]byte{0xa5}, 4096))
		if err := os.WriteFile(b.path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), store.Options{Path: b.path, Early: true})
		if err == nil {
			err = errors.Join(s.Sound(t.Context()), s.Close())
		}
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "dispatcher restore BACKUP --data "+filepath.Dir(b.path)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEarlyStoreOfAnOlderSchemaIsCheckedBeforeItIsChanged(t *testing.T) {
	t.Parallel()
	b := misfiled(t, 2000)
	if _, err := b.raw().ExecContext(t.Context(), "PRAGMA user_version = 3"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), store.Options{Path: b.path, Early: true}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("opened: %v", err)
	}
}

func TestRegisterKnowsWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	b := setup(t)
	places, _ := targets(350)
	for i, step := range []struct {
		source string
		places []store.Place
	}{{"one", places}, {"", places[:120]}, {"two", places[:120]}, {"one", places}} {
		if n, same, err := b.PlacesFrom(t.Context(), step.source); err != nil || same {
			t.Errorf("step %d: it is from there already: %d, %v", i, n, err)
		}
		if _, _, _, err := b.ReplacePlaces(t.Context(), step.source, step.places, t0); err != nil {
			t.Fatal(err)
		}
		n, same, err := b.PlacesFrom(t.Context(), step.source)
		if err != nil || !same || n != len(step.places) {
			t.Errorf("step %d: %d places, %v, %v", i, n, same, err)
		}
		if got, err := b.ListPlaces(t.Context()); err != nil || len(got) != n {
			t.Errorf("step %d: %d places, %v", i, len(got), err)
		}
	}
}
