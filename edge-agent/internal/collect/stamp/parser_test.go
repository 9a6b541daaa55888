package stamp_test

import (
	"testing"
	"time"

	"muster/edge-agent/internal/collect/stamp"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	location, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

func options(t testing.TB) stamp.Options {
	t.Helper()
	return stamp.Options{
		Location: zone(t, "Asia/Shanghai"),
		AsOf:     time.Date(2026, 9, 18, 0, 0, 0, 0, time.UTC), Modified: time.Date(2026, 9, 18, 0, 0, 0, 0, time.UTC),
		FileDay: time.Date(2026, 9, 17, 0, 0, 0, 0, time.UTC),
	}
}

func TestParseForms(t *testing.T) {
	t.Parallel()
	const want = "2026-09-17T07:30:05+08:00"
	for _, line := range []string{
		"2026-09-17T07:30:05+08:00 x", "2026-09-16T23:30:05Z x", "2026-09-17T07:30:05+0800 x", "2026-09-17t07:30:05.000+08:00",
		"2026-09-17 07:30:05 ERROR x", "2026-09-17 07:30:05,000 x", "2026-09-17 07:30:05.000000 x", "2026-09-17 07:30:05.000 +0800 x",
		"2026-09-16 23:30:05 UTC x", "2026-09-16 23:30:05 +0000 UTC x", "2026/09/17 07:30:05 x", "2026.09.17 07:30:05 x",
		"2026-9-17 7:30:05 x", "2026-09-17_07:30:05 x", "2026-09-17-07.30.05.000000 x", "2026-09-17  07:30:05 x",
		"[2026-09-17 07:30:05] x", "[2026-09-17 07:30:05.000][main] x", "<2026-09-17 07:30:05> x", "(2026-09-17 07:30:05) x",
		"\"2026-09-17 07:30:05\",x", "ERROR 2026-09-17 07:30:05 x", "[ERROR] [2026-09-17 07:30:05] x", "INFO: 2026-09-17 07:30:05 x",
		"2026-09-17 07:30:05, Info    CBS x", "20260917-07:30:05:000|x", "20260917-7:30:5:000|x", "20260917 073005 x",
		"20260917T073005Z"[:15] + " x", "20260917073005 x", "20260917073005000 x", "20260917T073005+0800 x",
		"[Thu Sep 17 07:30:05 2026] [error] x", "[Thu Sep 17 07:30:05.000123 2026] x", "Thu Sep 17 07:30:05 CST 2026 x",
		"Sep 17 07:30:05 host sshd[1]: x", "Sep 17 2026 07:30:05 x", "Sep 17, 2026 7:30:05 AM com.x", "Sep 17 2026 07:30:05.000: %ASA x",
		"<34>Sep 17 07:30:05 host x", "<165>1 2026-09-17T07:30:05+08:00 host x", "Thu, 17 Sep 2026 07:30:05 +0800 x",
		"Wed, 16 Sep 2026 23:30:05 GMT x", "10.0.0.1 - - [17/Sep/2026:07:30:05 +0800] \"GET /\"", "10.11.12.13 - bob [17/Sep/2026:07:30:05 +0800] x",
		"17/Sep/2026:07:30:05 +0800 x", "17-Sep-2026 07:30:05.000 INFO x", "17 Sep 2026 07:30:05 x", "17.09.2026 07:30:05 x",
		"17/09/2026 07:30:05 x", "9/17/2026 7:30:05 AM x", "09/17/2026 07:30:05 x", "26/09/17 07:30:05 INFO x", "09-17 07:30:05.000  12  34 E x",
		"I0917 07:30:05.000000 1 x.go:1] x", "E0917 07:30:05.000000 1 x.go:1] x", "1789601405 x", "1789601405.000 x", "[1789601405000] x",
		"1789601405000000 x", "1789601405000,x", "2026年9月17日 07:30:05 x", "2026年09月17日 07时30分05秒 x", "2026/9/17 上午 07:30:05 x",
		`{"time":"2026-09-17T07:30:05+08:00","msg":"x"}`, `{"level":"info","ts":1789601405.000,"msg":"x"}`, `{"msg":"x","@timestamp":"2026-09-16T23:30:05.000Z"}`,
		`{"level":30,"time":1789601405000,"msg":"x"}`, `time="2026-09-17T07:30:05+08:00" level=info x`, `level=info ts=2026-09-16T23:30:05Z x`,
		"07:30:05 x", "07:30:05.000 [main] x", "[07:30:05] x", "pos-1 [main] 2026-09-17 07:30:05 x", "1234 2026-09-17 07:30:05 x",
	} {
		ms, rest, ok := stamp.NewParser(options(t)).Parse([]byte(line))
		if !ok {
			t.Errorf("%q: no time was found", line)
			continue
		}
		if got := time.UnixMilli(ms).In(zone(t, "Asia/Shanghai")).Format(time.RFC3339); got != want {
			t.Errorf("%q: got %s", line, got)
		}
		if rest <= 0 || rest > len(line) {
			t.Errorf("%q: the text begins at %d", line, rest)
		}
	}
}

func TestParseFraction(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int64{
		"2026-09-17 07:30:05,123 x": 123, "2026-09-17 07:30:05.5 x": 500, "2026-09-17T07:30:05.123456789Z": 123,
		"20260917-07:30:05:606|x": 606, "20260917-7:30:5:6|x": 6, "1789601405.250 x": 250, "1789601405123 x": 123,
	} {
		if ms, _, ok := stamp.NewParser(options(t)).Parse([]byte(line)); !ok || ms%1000 != want {
			t.Errorf("%q: got %d, %v", line, ms%1000, ok)
		}
	}
}

func TestParseLeavesOtherLinesAlone(t *testing.T) {
	t.Parallel()
	p := stamp.NewParser(options(t))
	if _, _, ok := p.Parse([]byte("2026-09-17 07:30:05 ERROR x")); !ok {
		t.Fatal("the first line has a time")
	}
	for _, line := range []string{
		"", " ", "\tat com.x.Y(Y.java:12)", "Caused by: x at 2026-01-01 00:00:00 y", "  2026 items", "2026-13-45 07:30:05", "2026-02-30 07:30:05",
		"2026-09-17", "2026-09-17 25:00:00", "2026-09-17 07:61:00", "12345678 9", "17/Foo/2026:07:30:05", "May the force", "Mon ami", "[",
		"192.168.0.1 x", "1.2.3.4.5 x", "99999999999 x", "3 retries", "Sept", "1789601405 sold", "1789601405000,milk", "07:30:05 took long", "{\"n\":1}", "<34>", "Sunday",
	} {
		if ms, _, ok := p.Parse([]byte(line)); ok {
			t.Errorf("%q: got %s", line, time.UnixMilli(ms).UTC())
		}
	}
}

func TestParseInfersYear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, asOf, modified, line, want string }{
		{"this year", "2026-09-18", "2026-09-18", "Sep 17 07:30:05 x", "2026-09-17"},
		{"new year, line before", "2027-01-01", "2027-01-01", "Dec 31 23:59:59 x", "2026-12-31"},
		{"new year, line after", "2027-01-01", "2027-01-01", "Jan  1 00:00:01 x", "2027-01-01"},
		{"new year's eve, file goes on", "2026-12-31", "2027-01-03", "Jan  2 00:00:01 x", "2027-01-02"},
		{"old file", "2026-09-18", "2024-07-01", "Jun 14 15:16:01 x", "2024-06-14"},
		{"old file across new year", "2026-09-18", "2024-01-02", "Dec 31 15:16:01 x", "2023-12-31"},
		{"copied file", "2025-01-01", "2026-11-29", "Dec 31 23:59:59 x", "2024-12-31"},
		{"dead clock", "2026-09-18", "1980-01-01", "Sep 17 07:30:05 x", "2026-09-17"},
		{"clock ahead by a day", "2026-09-17", "2026-09-17", "Sep 18 07:30:05 x", "2026-09-18"},
		{"leap day", "2026-09-18", "2026-09-18", "Feb 29 07:30:05 x", "2024-02-29"},
		{"month and day", "2027-01-01", "2027-01-01", "12-31 23:59:59.999 1 2 E x", "2026-12-31"},
		{"glog", "2027-01-01", "2027-01-01", "W1231 23:59:59.000000 1 x", "2026-12-31"},
	} {
		at := func(day string) time.Time {
			parsed, err := time.Parse("2006-01-02", day)
			if err != nil {
				t.Fatal(err)
			}
			return parsed.Add(time.Hour)
		}
		o := options(t)
		o.AsOf, o.Modified = at(c.asOf), at(c.modified)
		ms, _, ok := stamp.NewParser(o).Parse([]byte(c.line))
		if got := time.UnixMilli(ms).In(o.Location).Format("2006-01-02"); !ok || got != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, ok, c.want)
		}
	}
}

func TestParseAcrossClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, line, want string }{
		{"America/Los_Angeles", "2026-03-08 01:59:59 x", "2026-03-08T01:59:59-08:00"},
		{"America/Los_Angeles", "2026-03-08 02:30:00 x", "2026-03-08T01:30:00-08:00"},
		{"America/Los_Angeles", "2026-03-08 23:59:59 x", "2026-03-08T23:59:59-07:00"},
		{"America/Los_Angeles", "2026-11-01 23:59:59 x", "2026-11-01T23:59:59-08:00"},
		{"America/Los_Angeles", "2026-11-01 00:00:00 x", "2026-11-01T00:00:00-07:00"},
		{"America/Sao_Paulo", "2018-11-04 00:30:00 x", "2018-11-04T01:00:00-02:00"},
		{"Asia/Shanghai", "2026-09-17 23:59:60 x", "2026-09-17T23:59:59+08:00"},
	} {
		o := options(t)
		o.Location = zone(t, c.zone)
		ms, _, ok := stamp.NewParser(o).Parse([]byte(c.line))
		got := time.UnixMilli(ms).In(o.Location).Format(time.RFC3339)
		if !ok || got != c.want {
			t.Errorf("%s %s: got %s, %v", c.zone, c.line, got, ok)
		}
	}
}

func TestParseLayouts(t *testing.T) {
	t.Parallel()
	for layout, line := range map[string]string{
		"02|01|2006 15h04m05": "17|09|2026 07h30m05 x", "02 01 15:04:05": "17 09 07:30:05 x", "[2006#01#02@15:04:05]": "[2026#09#17@07:30:05] x",
	} {
		if err := stamp.CheckLayout(layout); err != nil {
			t.Errorf("CheckLayout(%q): %v", layout, err)
		}
		o := options(t)
		o.Layouts = []string{layout}
		ms, _, ok := stamp.NewParser(o).Parse([]byte(line))
		if got := time.UnixMilli(ms).In(o.Location).Format(time.RFC3339); !ok || got != "2026-09-17T07:30:05+08:00" {
			t.Errorf("%q: got %s, %v", line, got, ok)
		}
	}
	for _, layout := range []string{"", "foo", "15:04:05", "2006-01-02", "YYYY-MM-DD HH:mm:ss"} {
		if stamp.CheckLayout(layout) == nil {
			t.Errorf("CheckLayout(%q) accepted it", layout)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"2026-09-17 07:30:05,123 x", "[Sun Dec 04 04:47:44 2005] x", "<34>1 Sep", `{"ts":17`, "17/Sep/2026:07", "2026年9月"} {
		f.Add([]byte(seed))
	}
	location, err := time.LoadLocation("America/Sao_Paulo")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		p := stamp.NewParser(stamp.Options{Location: location, AsOf: time.UnixMilli(1_789_601_405_000), FileDay: time.UnixMilli(0)})
		if _, rest, ok := p.Parse(line); ok && (rest < 0 || rest > len(line)) {
			t.Errorf("%q: the text begins at %d", line, rest)
		}
	})
}
