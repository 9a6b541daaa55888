package outbox_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"muster/edge-agent/internal/outbox"
	"muster/internal/protocol"
)

func open(t *testing.T, folder string) *outbox.Box {
	t.Helper()
	b, err := outbox.Open(folder, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func answer(taskID string, attempt int, value string) outbox.Answer {
	a := outbox.Answer{TaskID: taskID, Attempt: attempt, Frame: protocol.Result{TaskID: taskID, Attempt: attempt,
		Outcome: protocol.AnswerSucceeded, Result: []byte(value), Executed: true}}
	a.Seal()
	return a
}

func put(t *testing.T, b *outbox.Box, a outbox.Answer) {
	t.Helper()
	if err := b.Put(a); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.answer"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAnswerKeepsItsBytes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	value := `{"n":9007199254740993,"x":1.0,"text":"<a & b>\u2028 \\ 中文"}`
	put(t, open(t, folder), answer("t1", 1, value))
	b := open(t, folder)
	a, err := b.Read("t1")
	if err != nil || string(a.Frame.Result) != value {
		t.Errorf("read %s, %v", a.Frame.Result, err)
	}
	if k, ok := b.Get("t1"); !ok || k.Bytes != len(value) || k.Attempt != 1 || k.SHA256 != a.Frame.SHA256 {
		t.Errorf("kept %+v", k)
	}
}

func TestDeletedOnlyByItsReceipt(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	b := open(t, folder)
	a := answer("t1", 2, `{}`)
	put(t, b, a)
	for _, wrong := range []struct {
		id      string
		attempt int
		sha     string
	}{{"t2", 2, a.Frame.SHA256}, {"t1", 1, a.Frame.SHA256}, {"t1", 2, ""}} {
		if err := b.Delete(wrong.id, wrong.attempt, wrong.sha); !errors.Is(err, outbox.ErrWrongReceipt) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if len(files(t, folder)) != 1 {
		t.Fatal("I1: deleted without its receipt")
	}
	if err := b.Delete("t1", 2, a.Frame.SHA256); err != nil {
		t.Fatal(err)
	}
	if len(files(t, folder)) != 0 || b.Len() != 0 || open(t, folder).Len() != 0 {
		t.Error("still there")
	}
}

func TestNewAnswerReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	b := open(t, folder)
	put(t, b, answer("t1", 1, `{}`))
	old, err := os.ReadFile(files(t, folder)[0])
	if err != nil {
		t.Fatal(err)
	}
	oldName := files(t, folder)[0]
	put(t, b, answer("t1", 2, `{}`))
	if n := len(files(t, folder)); n != 1 {
		t.Errorf("%d files", n)
	}
	// A crash between writing the new and deleting the old.
	if err := os.WriteFile(oldName, old, 0o600); err != nil {
		t.Fatal(err)
	}
	b = open(t, folder)
	if k, _ := b.Get("t1"); k.Attempt != 2 || len(files(t, folder)) != 1 {
		t.Errorf("kept %+v in %v", k, files(t, folder))
	}
}

func TestDamagedFilesAreSetAsideAndTheRestSent(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string, data []byte) error{
		"empty":   func(p string, _ []byte) error { return os.Truncate(p, 0) },
		"half":    func(p string, d []byte) error { return os.Truncate(p, int64(len(d)/2)) },
		"altered": func(p string, d []byte) error { d[len(d)-20] ^= 1; return os.WriteFile(p, d, 0o600) },
		"foreign": func(p string, _ []byte) error { return os.WriteFile(p, []byte("hello\n{}"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			b := open(t, folder)
			put(t, b, answer("bad_one", 3, `{"a":1}`))
			path := files(t, folder)[0]
			put(t, b, answer("good", 1, `{"a":2}`))
			if err := os.WriteFile(filepath.Join(folder, "x.answer.tmp"), []byte("left over"), 0o600); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(path, data); err != nil {
				t.Fatal(err)
			}
			b = open(t, folder)
			if _, ok := b.Get("good"); !ok || b.Len() != 1 {
				t.Errorf("kept %+v", b.List())
			}
			if len(b.Damaged) != 1 || b.Damaged[0].TaskID != "bad_one" || b.Damaged[0].Attempt != 3 {
				t.Fatalf("damaged %+v", b.Damaged)
			}
			if _, err := os.Stat(b.Damaged[0].Path); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(folder, "x.answer.tmp")); !os.IsNotExist(err) {
				t.Error("left over file is still there")
			}
		})
	}
}

func TestIdsThatDifferInCaseOrAreReservedStayApart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	b := open(t, folder)
	ids := []string{"a", "A", "CON", "nul.txt", "1E5", "007", "06-8108", "x_1", "x_1_2"}
	for i, id := range ids {
		put(t, b, answer(id, i+1, `{}`))
	}
	names := map[string]bool{}
	for _, f := range files(t, folder) {
		names[filepath.Base(f)] = true
	}
	if b = open(t, folder); b.Len() != len(ids) || len(names) != len(ids) {
		t.Errorf("kept %d in %d files", b.Len(), len(names))
	}
	for i, id := range ids {
		if k, _ := b.Get(id); k.Attempt != i+1 {
			t.Errorf("%s: %+v", id, k)
		}
	}
}
