package outbox_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/edge-agent/internal/outbox"
)

// TestOneChecksumIsNotEnough: neither a frame that was altered nor a value whose
// file was sealed anew is ever sent.
func TestOneChecksumIsNotEnough(t *testing.T) {
	t.Parallel()
	reseal := func(data []byte) []byte {
		_, doc, _ := bytes.Cut(data, []byte("\n"))
		sum := sha256.Sum256(doc)
		return append([]byte(hex.EncodeToString(sum[:])+"\n"), doc...)
	}
	for name, alter := range map[string]func(data []byte) []byte{
		"attempt":         func(d []byte) []byte { return bytes.Replace(d, []byte(`"attempt":3`), []byte(`"attempt":4`), 1) },
		"value, resealed": func(d []byte) []byte { return reseal(bytes.Replace(d, []byte(`{"a":1}`), []byte(`{"a":2}`), 1)) },
		"no task, resealed": func(d []byte) []byte {
			return reseal(bytes.Replace(d, []byte(`"taskId":"bad"`), []byte(`"taskId":""`), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			b := open(t, folder)
			put(t, b, answer("bad", 3, `{"a":1}`))
			path := files(t, folder)[0]
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			altered := alter(bytes.Clone(whole))
			if bytes.Equal(altered, whole) {
				t.Fatal("nothing was altered")
			}
			if err := os.WriteFile(path, altered, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Read("bad"); !errors.Is(err, outbox.ErrDamaged) {
				t.Errorf("read with %v", err)
			}
			if again := open(t, folder); again.Len() != 0 || len(again.Damaged) != 1 || again.Damaged[0].Attempt != 3 {
				t.Errorf("kept %+v, damaged %+v", again.List(), again.Damaged)
			}
		})
	}
}

// TestAFileThatIsNobodysIsSetAsideAndNamesNobody: an empty one whose name looks like
// an answer's, but is not what it would be called.
func TestAFileThatIsNobodysIsSetAsideAndNamesNobody(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"r_T1_1_00000000.answer", "r_T1_x_00000000.answer", "notes.answer"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, folder)
	aside, err := os.ReadDir(filepath.Join(folder, "damaged"))
	if err != nil || len(aside) != 3 || len(b.Damaged) != 0 || len(files(t, folder)) != 0 {
		t.Errorf("set aside %v, %v; lost %+v", aside, err, b.Damaged)
	}
}

func TestAFileThatIsGoneIsDamageAndAFolderThatIsGoneIsMadeAgain(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "outbox")
	b := open(t, folder)
	put(t, b, answer("t1", 1, `{}`))
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read("t1"); !errors.Is(err, outbox.ErrDamaged) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read with %v", err)
	}
	put(t, b, answer("t2", 1, `{}`))
	if got, err := open(t, folder).Read("t2"); err != nil || got.Attempt != 1 {
		t.Errorf("read %+v, %v", got, err)
	}
}
