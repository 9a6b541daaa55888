package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"muster/internal/files"
)

func TestASecretIsOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"correct horse\n": "correct horse", "\ufeffcorrect horse\r\n": "correct horse", "p": "p", " p \n\n": " p ", "密码\n": "密码",
	} {
		if got, err := files.Secret([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "is empty", "\n": "is empty", "a\nb\n": "more than one line", "a\tb": "control character", "a\x00": "not UTF-8", "\xff\xfea\x00": "not UTF-8",
		strings.Repeat("x", files.MaxSecret+1): "longer than 1024 bytes",
	} {
		if got, err := files.Secret([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if got, err := files.SecretFrom(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(folder, "none"): "put it there, or name another",
		folder:                        "name a file",
		filepath.Join(file, "below"):  "what stands above it is a file",
	} {
		if _, err := files.Read(path); runtime.GOOS != "windows" && (err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := files.Read(filepath.Join(folder, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
	denied := files.Mended(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission})
	if !strings.Contains(denied.Error(), "as whom this program runs") {
		t.Errorf("%v", denied)
	}
	if err := files.MakeFolder(filepath.Join(file, "below"), 0o700); err == nil || !strings.Contains(err.Error(), file+" is a file, not a folder") {
		t.Errorf("%v", err)
	}
}

func TestFoldersWhereNoFilesStayAreRefused(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"": "is required", "/": "the top of a disk", "a\nb": "control character"} {
		if err := files.CheckFolder(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"data", "/var/lib/muster", "/process", "/dev/shm/x"} {
		if err := files.CheckFolder(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	for _, path := range []string{"/proc", "/proc/x", "/sys/fs/x", "/dev", "/var/../proc/x"} {
		if err := files.CheckFolder(path); err == nil || !strings.Contains(err.Error(), "the system's own") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestInsideGoesByNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder, path string
		want         bool
	}{
		{"a", "a", true}, {"a", "a/b/c", true}, {"a", "./a/", true}, {"a", "b", false}, {"a", "ab", false}, {"a/b", "a", false}, {"a", "a/..b", true}, {"a", "a/../b", false},
	} {
		if got := files.Inside(c.folder, c.path); got != c.want {
			t.Errorf("%s in %s: %v", c.path, c.folder, got)
		}
	}
}
