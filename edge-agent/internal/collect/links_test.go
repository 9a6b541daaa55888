package collect_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCollectCountsAFileOnceWhateverItsNames: links to folders above, to the
// folder and to the file itself multiply nothing.
func TestCollectCountsAFileOnceWhateverItsNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pos/day/pos-1.log"), []byte(line))
	write(t, filepath.Join(dir, "pos/day/pos.ini"), []byte("a=1\n"))
	for path, target := range map[string]string{
		"pos/day/loop": "../..", "pos/linked": "day", "pos/current.log": "day/pos-1.log", "alias.log": "pos/current.log",
		"pos/current.ini": "day/pos.ini", "by-folder": "pos/day",
	} {
		if err := os.Symlink(target, filepath.Join(dir, path)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	config := shanghai(filepath.Join(dir, "**/*.log"), filepath.Join(dir, "by-folder/*.log"))
	config.ConfigFiles = []string{filepath.Join(dir, "**/*.ini"), filepath.Join(dir, "by-folder/*.ini")}
	out := gather(t, config, day, when(t, asOf))
	if out.Totals.Files != 1 || out.Totals.Lines != 1 || len(out.Logs) != 1 || filepath.Base(out.Logs[0].Path) != "pos-1.log" {
		t.Errorf("totals %+v, logs %+v", out.Totals, out.Logs)
	}
	if len(out.Config) != 1 || filepath.Base(out.Config[0].Path) != "pos.ini" {
		t.Errorf("configuration %+v", out.Config)
	}
	again := 0
	for _, p := range out.Problems {
		if p.Code != "same_file" {
			t.Errorf("problem %+v", p)
		}
		again++
	}
	if again != 5 { // current.log, alias.log, by-folder/pos-1.log, current.ini, by-folder/pos.ini
		t.Errorf("%d second names told of: %+v", again, out.Problems)
	}
}

func TestCollectReadsALinkToAFileElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "store/2026.txt"), []byte(line))
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../store/2026.txt", filepath.Join(dir, "logs/app.log")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	out := gather(t, shanghai(filepath.Join(dir, "logs/*.log")), day, when(t, asOf))
	if out.Totals.Files != 1 || out.Totals.Lines != 1 || out.Totals.Problems != 0 {
		t.Errorf("totals %+v, problems %+v", out.Totals, out.Problems)
	}
}
