package collect_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// realDay is what awk counted in a real log for one day, by splitting lines at spaces.
type realDay struct {
	file, date                   string
	inRange, errors, warns, info int64
	firstAt, lastAt              string
	topMessage                   string
	topCount                     int64
}

func realDays() []realDay {
	return []realDay{
		{"Apache_2k.log", "2005-12-04", 1051, 311, 0, 740, "2005-12-04T04:47:44.000+08:00", "2005-12-04T20:47:17.000+08:00", "mod_jk child workerEnv in error state #", 281},
		{"Apache_2k.log", "2005-12-05", 949, 284, 0, 665, "2005-12-05T01:04:31.000+08:00", "2005-12-05T19:15:57.000+08:00", "mod_jk child workerEnv in error state #", 258},
		{"Apache_2k.log", "2005-12-06", 0, 0, 0, 0, "", "", "", 0},
		{"HealthApp_2k.log", "2017-12-23", 1776, 0, 0, 0, "2017-12-23T22:15:29.606+08:00", "", "", 0},
		{"HealthApp_2k.log", "2017-12-24", 224, 0, 0, 0, "", "2017-12-24T01:02:35.789+08:00", "", 0},
		{"Linux_2k.log", "2026-06-14", 3, 0, 0, 0, "2026-06-14T15:16:01.000+08:00", "2026-06-14T15:16:02.000+08:00", "", 0},
		{"Linux_2k.log", "2026-06-30", 102, 0, 0, 0, "", "", "", 0},
		{"Linux_2k.log", "2026-07-01", 64, 0, 0, 0, "", "", "", 0},
		{"Linux_2k.log", "2026-07-17", 190, 0, 0, 0, "", "", "", 0},
		{"Linux_2k.log", "2026-07-27", 99, 0, 0, 0, "", "2026-07-27T14:42:00.000+08:00", "", 0},
		{"Linux_2k.log", "2025-07-27", 0, 0, 0, 0, "", "", "", 0},
		{"Windows_2k.log", "2016-09-28", 953, 0, 0, 953, "2016-09-28T04:30:30.000+08:00", "", "", 0},
		{"Windows_2k.log", "2016-09-29", 1047, 0, 0, 1047, "", "2016-09-29T02:04:40.000+08:00", "", 0},
		{"Zookeeper_2k.log", "2015-07-29", 1523, 13, 1155, 355, "2015-07-29T17:41:44.747+08:00", "", "", 0},
		{"Zookeeper_2k.log", "2015-07-30", 161, 0, 44, 117, "", "", "", 0},
	}
}

func TestCollectRealLogs(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(repositoryRoot(t), "..", "shared", "data", "logs")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the real logs are not here: %v", err)
	}
	for _, c := range realDays() {
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
			checkRealDay(t, c, gather(t, shanghai(path), `{"date":"`+c.date+`"}`, modified))
		})
	}
}

func checkRealDay(t *testing.T, want realDay, out output) {
	t.Helper()
	if len(out.Logs) != 1 || len(out.Problems) != 0 {
		t.Fatalf("got %d logs, problems %v", len(out.Logs), out.Problems)
	}
	log := out.Logs[0]
	got := realDay{
		file: want.file, date: out.Date, inRange: log.LinesInRange,
		errors: log.Levels["error"], warns: log.Levels["warn"], info: log.Levels["info"],
		firstAt: log.FirstAt, lastAt: log.LastAt, topMessage: want.topMessage, topCount: want.topCount,
	}
	if want.firstAt == "" {
		got.firstAt = ""
	}
	if want.lastAt == "" {
		got.lastAt = ""
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if log.Lines != 2000 || log.Encoding != "ascii" || log.LinesWithoutTime != 0 {
		t.Errorf("lines %d, encoding %s, without time %d", log.Lines, log.Encoding, log.LinesWithoutTime)
	}
	if want.topMessage != "" && (out.TopErrors[0].Message != want.topMessage || out.TopErrors[0].Count != want.topCount) {
		t.Errorf("the most frequent error is %+v", out.TopErrors[0])
	}
}
