package collect_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"muster/edge-agent/internal/collect"
)

func TestCollectTakesTheStoresDay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, zone, input, asOf, date, start, end string }{
		{"yesterday at 07:30 in Shanghai", "Asia/Shanghai", `{"date":"yesterday"}`, "2026-09-18T07:30:00+08:00", "2026-09-17", "2026-09-17T00:00:00.000+08:00", "2026-09-18T00:00:00.000+08:00"},
		{"yesterday by default", "Asia/Shanghai", `{}`, "2026-09-17T23:30:00Z", "2026-09-17", "2026-09-17T00:00:00.000+08:00", "2026-09-18T00:00:00.000+08:00"},
		{"no input at all", "Asia/Shanghai", ``, "2026-09-17T15:59:59Z", "2026-09-16", "2026-09-16T00:00:00.000+08:00", "2026-09-17T00:00:00.000+08:00"},
		{"the same order for Los Angeles", "America/Los_Angeles", `{"date":"yesterday"}`, "2026-09-18T07:30:00+08:00", "2026-09-16", "2026-09-16T00:00:00.000-07:00", "2026-09-17T00:00:00.000-07:00"},
		{"23 hours", "America/Los_Angeles", `{"date":"yesterday"}`, "2026-03-09T07:30:00-07:00", "2026-03-08", "2026-03-08T00:00:00.000-08:00", "2026-03-09T00:00:00.000-07:00"},
		{"25 hours", "America/Los_Angeles", `{"date":"yesterday"}`, "2026-11-02T07:30:00-08:00", "2026-11-01", "2026-11-01T00:00:00.000-07:00", "2026-11-02T00:00:00.000-08:00"},
		{"over new year", "Asia/Shanghai", `{"date":"yesterday"}`, "2027-01-01T07:30:00+08:00", "2026-12-31", "2026-12-31T00:00:00.000+08:00", "2027-01-01T00:00:00.000+08:00"},
		{"a date", "Asia/Kathmandu", `{"date":"2024-02-29"}`, "2026-09-18T07:30:00+08:00", "2024-02-29", "2024-02-29T00:00:00.000+05:45", "2024-03-01T00:00:00.000+05:45"},
		{"no midnight", "America/Sao_Paulo", `{"date":"2018-11-04"}`, "2018-11-05T07:30:00Z", "2018-11-04", "2018-11-04T01:00:00.000-02:00", "2018-11-05T00:00:00.000-02:00"},
		{"two midnights", "America/Havana", `{"date":"2026-11-01"}`, "2026-11-05T07:30:00Z", "2026-11-01", "2026-11-01T00:00:00.000-04:00", "2026-11-02T00:00:00.000-05:00"},
		{"a date that was skipped", "Pacific/Apia", `{"date":"2011-12-30"}`, "2012-01-05T07:30:00Z", "2011-12-30", "2011-12-31T00:00:00.000+14:00", "2011-12-31T00:00:00.000+14:00"},
		{"half an hour", "Australia/Lord_Howe", `{"date":"2026-04-05"}`, "2026-05-05T07:30:00Z", "2026-04-05", "2026-04-05T00:00:00.000+11:00", "2026-04-06T00:00:00.000+10:30"},
	} {
		out := gather(t, collect.Config{TimeZone: c.zone}, c.input, when(t, c.asOf))
		if out.Date != c.date || out.RangeStart != c.start || out.RangeEnd != c.end || out.TimeZone != c.zone {
			t.Errorf("%s: got %s, %s to %s", c.name, out.Date, out.RangeStart, out.RangeEnd)
		}
		start, end := when(t, out.RangeStart), when(t, out.RangeEnd)
		if start.UnixMilli() != out.RangeStartMs || end.UnixMilli() != out.RangeEndMs {
			t.Errorf("%s: text and milliseconds differ", c.name)
		}
	}
}

// TestDaysTile walks through years of days in zones with all kinds of changes: each day begins where the one before
// ends, and holds its own noon.
func TestDaysTile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Asia/Shanghai", "America/Los_Angeles", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Africa/Cairo", "America/St_Johns",
		"Pacific/Apia", "Australia/Lord_Howe", "Europe/London", "America/Asuncion", "Asia/Gaza", "Antarctica/Troll", "Africa/Casablanca", "UTC",
	} {
		location, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		end := collect.StartOfDay(2004, time.January, 1, location)
		for day := range 365 * 24 {
			date := time.Date(2004, time.January, 1+day, 0, 0, 0, 0, time.UTC)
			start := end
			end = collect.StartOfDay(date.Year(), date.Month(), date.Day()+1, location)
			noon := time.Date(date.Year(), date.Month(), date.Day(), 12, 0, 0, 0, location)
			if noon.Day() != date.Day() {
				continue
			}
			if skipped := end.Equal(start) && name == "Pacific/Apia"; !skipped && (noon.Before(start) || !noon.Before(end)) {
				t.Fatalf("%s %s: noon %s is not in [%s, %s)", name, date.Format(time.DateOnly), noon, start, end)
			}
			if length := end.Sub(start); length > 26*time.Hour || length < 22*time.Hour && length != 0 {
				t.Fatalf("%s %s: %s long", name, date.Format(time.DateOnly), length)
			}
		}
	}
}

func TestCollectHalfOpenRange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "app.log"), []byte(
		"2026-09-16 23:59:59,999 INFO before\n  its second line\n2026-09-17 00:00:00,000 INFO first\n2026-09-17 00:00:00 ERROR a\n\tat x.Y\n"+
			"2026-09-17T15:59:59.999Z INFO last\n2026-09-17T16:00:00Z INFO next day\n2026-09-18 00:00:00 INFO next day\n"))
	out := gather(t, shanghai(path), `{"date":"2026-09-17"}`, when(t, "2026-09-18T07:30:00+08:00"))
	log := out.Logs[0]
	if log.Lines != 8 || log.LinesInRange != 4 || log.ContinuationLines != 1 || log.Levels["error"] != 1 || log.Levels["info"] != 2 {
		t.Errorf("got %+v", log)
	}
	if log.FirstAt != "2026-09-17T00:00:00.000+08:00" || log.LastAt != "2026-09-17T23:59:59.999+08:00" ||
		log.FileFirstAt != "2026-09-16T23:59:59.999+08:00" || log.FileLastAt != "2026-09-18T00:00:00.000+08:00" {
		t.Errorf("got %s to %s in the day, %s to %s in the file", log.FirstAt, log.LastAt, log.FileFirstAt, log.FileLastAt)
	}
	if out.Totals.LinesInRange != 4 || out.Totals.Errors != 1 || len(out.Excerpt) != 4 || out.Excerpt[2].Text != "\tat x.Y" || out.Excerpt[2].Level != "error" {
		t.Errorf("got %+v, %+v", out.Totals, out.Excerpt)
	}
}

func TestCollectCountsEveryHourOfADay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		date  string
		hours int64
	}{{"2026-03-08", 23}, {"2026-03-09", 24}, {"2026-11-01", 25}} {
		location, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.ParseInLocation(time.DateOnly, c.date, location)
		if err != nil {
			t.Fatal(err)
		}
		var plain, zoned []byte
		for at := day.Add(-5 * time.Hour); at.Before(day.Add(30 * time.Hour)); at = at.Add(time.Hour) {
			plain = fmt.Appendf(plain, "%s INFO x\n", at.Format("2006-01-02 15:04:05"))
			zoned = fmt.Appendf(zoned, "%s INFO x\n", at.Format(time.RFC3339))
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "plain.log"), plain)
		write(t, filepath.Join(dir, "zoned.log"), zoned)
		config := collect.Config{TimeZone: "America/Los_Angeles", Logs: []string{filepath.Join(dir, "*.log")}}
		out := gather(t, config, `{"date":"`+c.date+`"}`, day.Add(40*time.Hour))
		for _, log := range out.Logs {
			if log.LinesInRange != c.hours {
				t.Errorf("%s %s: %d lines of %d hours", c.date, filepath.Base(log.Path), log.LinesInRange, c.hours)
			}
		}
	}
}

// TestCollectLateStore: a store that comes back days later still collects the day that was meant when the run was
// ordered, years without a number included.
func TestCollectLateStore(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "messages"), []byte(
		"Dec 31 23:59:58 pos a: x\nDec 31 23:59:59 pos a: x\nJan  1 00:00:00 pos a: x\nJan  3 09:00:00 pos a: x\n"))
	out := gather(t, shanghai(path), `{"date":"yesterday"}`, when(t, "2026-01-01T07:30:00+08:00"))
	if log := out.Logs[0]; out.Date != "2025-12-31" || log.LinesInRange != 2 || log.FileLastAt != "2026-01-03T09:00:00.000+08:00" {
		t.Errorf("got %s, %+v", out.Date, log)
	}
}
