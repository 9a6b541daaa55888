package app_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
)

// TestAFirstStartThatFailsOverItsFilesLeavesNoFolders, which would be taken for a
// headquarters that was.
func TestAFirstStartThatFailsOverItsFilesLeavesNoFolders(t *testing.T) {
	t.Parallel()
	for want, tune := range map[string]func(dir string, cfg *config.Config){
		"cannot load the users file": func(dir string, cfg *config.Config) {
			cfg.Broker.Anonymous, cfg.Broker.UsersFile = false, filepath.Join(dir, "none.yaml")
		},
		"identity": func(dir string, cfg *config.Config) {
			cfg.Broker.Anonymous, cfg.Identity.Folder = false, filepath.Join(dir, "identity")
		},
		"stores.csv:2": func(dir string, cfg *config.Config) {
			cfg.StoresFile = filepath.Join(dir, "stores.csv")
			if err := os.WriteFile(cfg.StoresFile, []byte("store_id,name,time_zone,labels\nA 1,x,UTC,\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cfg, err := config.Load("")
			if err != nil {
				t.Fatal(err)
			}
			cfg.DataFolder, cfg.ReportsFolder = filepath.Join(dir, "data"), filepath.Join(dir, "reports")
			cfg.Broker.Listeners.TCP.Address = "127.0.0.1:0"
			tune(dir, &cfg)
			err = app.Run(t.Context(), cfg, app.Options{Logger: logger(t), Wall: time.Now, Ready: func(string) { t.Error("it has started") }})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			for _, folder := range []string{cfg.DataFolder, cfg.ReportsFolder} {
				if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left behind: %v", folder, err)
				}
			}
		})
	}
}
