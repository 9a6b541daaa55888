package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/config"
)

// TestListsThatAreNotThereAreNamedWithLineAndKey: the fault is the configuration's.
func TestListsThatAreNotThereAreNamedWithLineAndKey(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "dispatcher.yaml")
	if err := os.Mkdir(filepath.Join(folder, "bare"), 0o700); err != nil {
		t.Fatal(err)
	}
	for key, c := range map[string]struct{ value, want string }{
		"no folder":    {"jobs_folder: nowhere", "jobs_folder: there is no folder " + filepath.Join(folder, "nowhere") + ": make it, or name another"},
		"an empty one": {"jobs_folder: bare", "jobs_folder: cannot load jobs: " + filepath.Join(folder, "bare") + " holds no *.yaml: put the files of the jobs there, or leave jobs_folder out"},
		"no register":  {"stores_file: none.csv", "stores_file: cannot load stores: open " + filepath.Join(folder, "none.csv")},
	} {
		if err := os.WriteFile(path, []byte("data_folder: data\n"+c.value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = cfg.CheckLists()
		if err == nil || !strings.HasPrefix(err.Error(), path+":2: "+c.want) || !strings.Contains(err.Error(), "\n   2 | "+c.value+"\n") || !strings.HasSuffix(err.Error(), "^") {
			t.Errorf("%s: %v, want %s", key, err, c.want)
		}
	}
}
