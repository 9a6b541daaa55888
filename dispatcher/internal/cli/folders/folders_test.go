package folders_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/internal/cli/folders"
)

// TestTheDatabaseIsThatOfTheHeadquartersThatIsNamed, and who names none, where there is
// none, is told what to name.
func TestTheDatabaseIsThatOfTheHeadquartersThatIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("hq.yaml", []byte("data_folder: truth\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	byDefault := filepath.Join("muster-data", "muster.db")
	want := func(config, data, path string) {
		t.Helper()
		if got, err := folders.DatabasePath(config, data); err != nil || got != path {
			t.Errorf("config %q, data %q: %s, %v; want %s", config, data, got, err, path)
		}
	}
	want("hq.yaml", "", filepath.Join("truth", "muster.db"))
	want("", "other", filepath.Join("other", "muster.db"))
	for _, says := range []string{byDefault, "-c CONFIG or --data FOLDER"} {
		if path, err := folders.DatabasePath("", ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("nothing is named, and nothing is there: %s, %v; want %s", path, err, says)
		}
	}
	if _, err := folders.DatabasePath("none.yaml", ""); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a configuration that is not there: %v", err)
	}
	if err := os.Mkdir("muster-data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(byDefault, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want("", "", byDefault)
}

// TestAConfigurationThatSaysNothingIsNamedAsTheCause, and not a headquarters that would
// not run with the folder of no name.
func TestAConfigurationThatSaysNothingIsNamedAsTheCause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "holds no setting", "# cut off\n": "holds no setting", "\ufeff\n": "holds no setting",
		"data_folder: \"\"\n": "names no data_folder", "[": "it is no YAML"} {
		path := filepath.Join(t.TempDir(), "hq.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if own, err := folders.Of(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %s", text, own, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "hq.yaml")
	if err := os.WriteFile(path, []byte("\ufeffdata_folder: truth\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if own, err := folders.Of(path); err != nil || own.Data != filepath.Join(filepath.Dir(path), "truth") {
		t.Errorf("with a byte order mark: %+v, %v", own, err)
	}
}
