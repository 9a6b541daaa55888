package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"muster/internal/files"
)

func TestAFileThatSaysWhoMayLogInIsItsOwners(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("rights are kept elsewhere")
	}
	path := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o640: "", 0o644: "mode 0644: everybody may read it", 0o620: "mode 0620: others may write it", 0o666: "mode 0666: others may write it"} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		err := files.CheckGuarded(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || errors.Is(err, files.ErrOthersWrite) != strings.Contains(want, "write") {
			t.Errorf("%04o: %v, want %s", mode, err, want)
		}
		if err == nil {
			continue
		}
		// What it says to run is the mend.
		_, command, _ := strings.Cut(err.Error(), "run: chmod ")
		mended := map[string]os.FileMode{"go-w,o= " + path: mode &^ 0o027, "o= " + path: mode &^ 0o007}[command]
		if err := os.Chmod(path, mended); err != nil {
			t.Fatal(err)
		}
		if err := files.CheckGuarded(path); err != nil {
			t.Errorf("after chmod %s: %v", command, err)
		}
	}
	if err := files.CheckGuarded(""); err != nil {
		t.Errorf("no file: %v", err)
	}
}
