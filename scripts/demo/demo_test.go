package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"

	"muster/internal/protocol"
	"muster/internal/task"
)

func moment(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, "2026-09-18T07:30:00+08:00")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// decodedLogs reads a shop's logs back by the encoding that it is said to use.
func decodedLogs(t *testing.T, s shop, folder string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"pos.log.2.gz", "pos.log.1", "pos.log"} {
		data, err := os.ReadFile(filepath.Join(folder, "logs", name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			unpacked, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if data, err = io.ReadAll(unpacked); err != nil {
				t.Fatal(err)
			}
		}
		switch s.encoding {
		case "gbk":
			data, err = simplifiedchinese.GBK.NewDecoder().Bytes(data)
		case "big5":
			data, err = traditionalchinese.Big5.NewDecoder().Bytes(data)
		case "utf-16le":
			data, err = unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(data)
		case "utf-8-bom":
			data, err = unicode.UTF8BOM.NewDecoder().Bytes(data)
		}
		if err != nil {
			t.Fatalf("%s of %s is not %s: %v", name, s.id, s.encoding, err)
		}
		all.Write(data)
		all.WriteByte('\n')
	}
	return all.String()
}

func TestFactsAreWhatTheLogsSay(t *testing.T) {
	t.Parallel()
	now := moment(t)
	for _, s := range shops() {
		folder := t.TempDir()
		known, err := s.furnish(folder, now)
		if err != nil {
			t.Fatalf("%s: %v", s.id, err)
		}
		from, _, err := s.yesterday(now)
		if err != nil {
			t.Fatal(err)
		}
		date := from.Format(time.DateOnly)
		if s.style == syslog {
			date = from.Format("Jan _2")
		}
		lines, failures := 0, 0
		text := decodedLogs(t, s, folder)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimPrefix(line, "["), date) {
				lines++
				if strings.Contains(line, "ERROR") {
					failures++
				}
			}
		}
		if lines != known.lines || failures != known.errors || lines < 500 || failures == 0 {
			t.Errorf("%s: the logs have %d lines and %d errors of %s, the facts say %d and %d",
				s.id, lines, failures, date, known.lines, known.errors)
		}
		if strings.ContainsRune(text, '\ufffd') {
			t.Errorf("%s: the logs hold what %s cannot write", s.id, s.encoding)
		}
		if len(known.secrets) != 5 {
			t.Errorf("%s has %d secrets, expected 5", s.id, len(known.secrets))
		}
	}
}

func TestTheCrashingExecutorCountsTheSame(t *testing.T) {
	t.Parallel()
	now := moment(t)
	for _, s := range shops() {
		if s.part != crashing && s.part != outdated || s.encoding != "utf-8" {
			continue
		}
		folder := t.TempDir()
		known, err := s.furnish(folder, now)
		if err != nil {
			t.Fatal(err)
		}
		day, err := collectDay(folder, s.zone, now)
		if err != nil || day.lines != known.lines || day.errors != known.errors || day.files != 3 {
			t.Errorf("%s: got %+v, %v; want %d lines and %d errors in 3 files", s.id, day, err, known.lines, known.errors)
		}
	}
}

// perfect is a report of the revision in which every shop did its part.
func perfect(revision int, known map[string]facts) protocol.Report {
	var r protocol.Report
	r.Revision, r.Targets = revision, len(shops())
	r.Columns = []protocol.Column{{Name: columnLines}, {Name: columnErrors}}
	for _, s := range shops() {
		w := expected(s.part, revision)
		r.Counts.Add(w.outcome)
		r.Stores = append(r.Stores, protocol.StoreRow{StoreID: s.id, Name: s.name, Outcome: w.outcome, Reason: w.reason,
			AtBarrier: w.atBarrier, Attempt: w.attempt, Late: w.late, Columns: []json.RawMessage{
				json.RawMessage(fmt.Sprint(known[s.id].lines)), json.RawMessage(fmt.Sprint(known[s.id].errors))}})
	}
	return r
}

func TestEachFaultOfAReportIsFound(t *testing.T) {
	t.Parallel()
	known := map[string]facts{}
	for i, s := range shops() {
		known[s.id] = facts{lines: 1000 + i, errors: i}
	}
	for revision := range 3 {
		if found := checkReport(perfect(revision, known), shops(), known); revision > 0 && len(found) > 0 {
			t.Errorf("a perfect revision %d is faulted: %v", revision, found)
		}
	}
	for _, c := range []struct {
		name string
		harm func(*protocol.Report)
		want string
	}{
		{"a wrong bucket", func(r *protocol.Report) { r.Counts.Succeeded++ }, "counts"},
		{"a missing row", func(r *protocol.Report) { r.Stores = r.Stores[1:] }, "no row for SH_0312"},
		{"a second attempt", func(r *protocol.Report) { r.Stores[0].Attempt = 2 }, "says of SH_0312"},
		{"another outcome", func(r *protocol.Report) { r.Stores[11].Outcome = task.OutcomeFailed }, "says of SZ_0201"},
		{"a mangled name", func(r *protocol.Report) { r.Stores[6].Name = "?" }, "calls TPE_0021"},
		{"a miscount", func(r *protocol.Report) { r.Stores[2].Columns[0] = json.RawMessage("1") }, "lines of BJ_0007"},
		{"no column", func(r *protocol.Report) { r.Columns = nil }, "errors of SH_0312"},
	} {
		report := perfect(2, known)
		c.harm(&report)
		found := checkReport(report, shops(), known)
		if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, c.want) }) {
			t.Errorf("%s: got %v, want a finding with %q", c.name, found, c.want)
		}
	}
}

func TestASecretIsFoundAnywhereButInTheShop(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	known := map[string]facts{"SH_0312": {secrets: []string{"token-SECRETSECRET"}}}
	for _, path := range []string{"stores/SH_0312/pos/conf/a", "reports/2026/x.json", "stores/SH_0312/agent/outbox/y"} {
		full := filepath.Join(work, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("before token-SECRETSECRET after"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, files := checkSecrets(work, shops(), known)
	if len(found) != 2 || files != 2 {
		t.Errorf("got %d findings in %d files, want 2 in 2: %v", len(found), files, found)
	}
	for _, f := range found {
		if strings.Contains(f, "SECRETSECRET") {
			t.Errorf("the finding repeats the secret: %s", f)
		}
	}
}

func TestColumnsCountsChineseAsTwo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "007": 3, "上海": 4, "香港-1": 6} {
		if got := columns(text); got != want {
			t.Errorf("columns(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestMidnightIsWaitedOut(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]time.Duration{
		"2026-09-18T07:30:00+08:00": 0,
		"2026-09-17T23:59:40+08:00": 0,
		"2026-09-17T23:59:50+08:00": 10*time.Second + time.Millisecond,
		"2026-09-18T00:00:00+08:00": 0,
		"2026-11-01T23:59:59-08:00": time.Second + time.Millisecond, // the day after its 25-hour day began
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := untilClear(shops(), now); err != nil || got != want {
			t.Errorf("at %s: wait %s, %v; want %s", at, got, err, want)
		}
	}
}
