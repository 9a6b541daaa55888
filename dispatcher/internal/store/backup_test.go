package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

func TestBackupUnderLoadIsAPrefixOfWhatWasWritten(t *testing.T) {
	t.Parallel()
	const tasks = 20_000
	b := setup(t)
	b.create(tasks)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	granted := 0 // in this order, one after the other
	writers.Go(func() {
		for i := 0; i < tasks && ctx.Err() == nil; i++ {
			b.grant(i, t0)
			if err := b.Audit(context.WithoutCancel(ctx), "ada", "tested", taskID(i), "", t0); err != nil {
				t.Error(err)
			}
			mu.Lock()
			granted++
			mu.Unlock()
		}
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return granted
	}
	for round := range 3 {
		before := count()
		made, err := store.MakeBackup(t.Context(), b.path, filepath.Join(t.TempDir(), "backup.db"))
		after := count()
		if err != nil {
			t.Fatal(err)
		}
		copied := &bundle{t: t, path: made.Path}
		copied.open()
		running, err := copied.ListRunning(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range running {
			if r.Task.TaskID != taskID(i) {
				t.Fatalf("round %d: task %d of the backup is %s", round, i, r.Task.TaskID)
			}
		}
		// One grant may be committed and not yet counted, at either end.
		if n := len(running); n < before || n > after+1 {
			t.Errorf("round %d: %d grants in the backup, between %d and %d were made", round, n, before, after)
		}
		if entries := int(made.Audit.Head.ID) - 1; entries > len(running) || entries < len(running)-1 {
			t.Errorf("round %d: %d audit entries beside %d grants", round, entries, len(running))
		}
		copied.close()
		t.Logf("round %d: %d before, %d in the backup, %d after", round, before, len(running), after)
	}
	if count() == 0 {
		t.Error("nothing was written meanwhile")
	}
	stop()
	writers.Wait()
}

func TestBackupIsPrivateSoundAndNeverOverAFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(50)
	b.audited(3)
	folder := t.TempDir()
	file := filepath.Join(folder, "50% ?#备份.db")
	made, err := store.MakeBackup(t.Context(), b.path, file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != made.Bytes || made.Path != file {
		t.Errorf("%v, %v, %+v", info, err, made)
	}
	if made.Audit.Head != b.head() || made.Audit.Wrong != 0 || made.Version != 6 || made.Epoch != 0 {
		t.Errorf("%+v", made)
	}
	if _, err := store.MakeBackup(t.Context(), b.path, file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if found, err := store.InspectBackup(t.Context(), file); err != nil || found.Audit.Head != b.head() {
		t.Errorf("the first backup: %+v, %v", found, err)
	}
	for name, from := range map[string]string{"no database": filepath.Join(folder, "none.db"), "no folder": b.path} {
		into := filepath.Join(folder, "missing", "x.db")
		if name == "no database" {
			into = filepath.Join(folder, "x.db")
		}
		if _, err := store.MakeBackup(t.Context(), from, into); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

// TestABackupTidiesWhatAKilledOneLeft, and nothing that may be another's or in use.
func TestABackupTidiesWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(5)
	folder := t.TempDir()
	whole := filepath.Join(folder, "whole.db")
	if _, err := store.MakeBackup(t.Context(), b.path, whole); err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Clone(copied)
	foreign[68]++ // the application id
	put := func(name string, text []byte, mode fs.FileMode, age time.Duration) {
		path, written := filepath.Join(folder, name), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, text, mode), os.Chmod(path, mode), os.Chtimes(path, written, written)); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	put("old.db.part-1", copied, 0o600, day)
	put("old.db.part-2", make([]byte, 4096), 0o600, day)
	put("old.db.part-2-journal", nil, 0o600, day)
	put("next.db.part-3", nil, 0o600, day)
	want := []string{"next.db", "whole.db"}
	for name, c := range map[string]struct {
		text []byte
		mode fs.FileMode
		age  time.Duration
	}{
		"in-use.db.part-4":  {copied, 0o600, time.Hour},
		"another.db.part-5": {foreign, 0o600, day},
		"film.part-6":       {[]byte(strings.Repeat("film", 100)), 0o600, day},
		"short.part-7":      {[]byte("a"), 0o600, day},
		"shared.db.part-8":  {copied, 0o644, day},
		"other.db.part-x":   {copied, 0o600, day},
		".part-9":           {copied, 0o600, day},
	} {
		if runtime.GOOS != "windows" || c.mode == 0o600 {
			put(name, c.text, c.mode, c.age)
			want = append(want, name)
		}
	}
	if _, err := store.MakeBackup(t.Context(), b.path, filepath.Join(folder, "next.db")); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(want)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("the folder holds %v, %v; want %v", left, err, want)
	}
}

func TestBackupOfADamagedDatabaseFails(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	b.open()
	b.create(2000)
	b.close()
	overwrite(t, b.path, 4096*20, strings.Repeat("\xde\xad\xbe\xef", 1024))
	into := filepath.Join(t.TempDir(), "backup.db")
	if _, err := store.MakeBackup(t.Context(), b.path, into); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("backed up: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(into)); err != nil || len(left) != 0 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

// overwrite writes text into the middle of a file.
func overwrite(t *testing.T, path string, offset int64, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_, err = file.WriteAt([]byte(text), offset)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// SQLite takes a relative path in a URI for one from the root of the file system.
func TestBackupAndRestoreTakePathsAsTheyStand(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	names := []string{"b.db", "a/b/c.db", "./x y.db", "../" + filepath.Base(home) + "/up.db", "50% ?#备份 '\".db", "%41.db", "?mode=memory", "#x", "file:c.db"}
	for i, folder := range []string{"data", "d?#% 数据"} {
		if err := os.MkdirAll(filepath.Join(folder, "a", "b"), 0o700); err != nil {
			t.Fatal(err)
		}
		b := &bundle{t: t, path: filepath.Join(folder, "muster.db")}
		b.open()
		b.create(3)
		for _, name := range names {
			into := folder + "/" + name
			if strings.HasPrefix(name, "../") {
				into = name
			}
			made, err := store.MakeBackup(t.Context(), b.path, into)
			if err != nil {
				t.Errorf("%s: %v", into, err)
				continue
			}
			info, err := os.Stat(filepath.Join(home, filepath.FromSlash(into)))
			if err != nil || info.Mode().Perm() != 0o600 || info.Size() != made.Bytes || made.Bytes == 0 {
				t.Errorf("%s: %v, %v, %+v", into, info, err, made)
			}
			restored := filepath.Join(folder, "a", "muster.db")
			if _, err := store.Restore(t.Context(), into, restored, "ada", t0); err != nil {
				t.Errorf("restored from %s: %v", into, err)
			}
			if err := os.Remove(into); err != nil {
				t.Error(err)
			}
		}
		b.close()
		if left, err := filepath.Glob("*"); err != nil || len(left) != i+1 {
			t.Errorf("left %v, %v", left, err)
		}
	}
	for what, err := range map[string]error{
		"backup":  second(store.MakeBackup(t.Context(), "data/muster.db", "none/such/b.db")),
		"restore": second(store.Restore(t.Context(), "data/muster.db", "none/such/muster.db", "ada", t0)),
	} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no folder none/such") || !strings.Contains(err.Error(), "mkdir -p ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
