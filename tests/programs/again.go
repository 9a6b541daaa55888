package programs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/settings"
)

// Again prints the configuration that load reads from a path in a folder, and reads what was
// printed from a file in another folder: every key must mean the same. It returns both
// configurations and the text between, and leaves the test in the other folder.
func Again[C interface {
	Effective() ([]settings.Effective, error)
}](t *testing.T, load func(path string, over ...settings.Value) (C, error), folder, path string) (first, second C, text string) {
	t.Helper()
	printed := func(path string) (C, []settings.Effective, []byte) {
		t.Helper()
		c, err := load(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := settings.WriteEffective(&out, all); err != nil {
			t.Fatal(err)
		}
		return c, all, out.Bytes()
	}
	t.Chdir(folder)
	first, before, out := printed(path)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("again.yaml", out, 0o600); err != nil {
		t.Fatal(err)
	}
	second, after, _ := printed("again.yaml")
	if unlike := settings.Changed(before, after); len(unlike) > 0 {
		t.Errorf("%s: read back, %v differ:\n%s", path, unlike, out)
	}
	return first, second, string(out)
}

// WriteAll writes files into a folder that it makes, by their names.
func WriteAll(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
