package collect_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/collect"
)

// crowded fills a folder with more than any result holds: long messages, large settings, many files.
func crowded(t testing.TB, files int) collect.Config {
	t.Helper()
	dir := t.TempDir()
	for i := range files {
		var log bytes.Buffer
		for k := range 60 {
			fmt.Fprintf(&log, "2026-09-17 10:00:%02d ERROR %s %s\n", k, strings.Repeat(string(rune('a'+k%26))+"错误<&>", 40+k), strings.Repeat("\"", 100))
			fmt.Fprintf(&log, "2026-09-17 10:00:%02d INFO %s\n", k, strings.Repeat("\x01", 900))
		}
		write(t, filepath.Join(dir, fmt.Sprintf("%03d-%s.log", i, strings.Repeat("n", 100))), log.Bytes())
		write(t, filepath.Join(dir, fmt.Sprintf("%03d.ini", i)), []byte(strings.Repeat("key = value \"quoted\"\n", 2000+i)))
	}
	config := shanghai(filepath.Join(dir, "*.log"))
	config.ConfigFiles = []string{filepath.Join(dir, "*.ini")}
	return config
}

func TestCollectKeepsItsBound(t *testing.T) {
	t.Parallel()
	for _, files := range []int{1, 3, 40} {
		config := crowded(t, files)
		for _, limit := range []int{0, 8192, 60_000} {
			config.MaxResultBytes = limit
			out := gather(t, config, `{"date":"2026-09-17","excerptLines":1000,"topErrors":100}`, when(t, asOf))
			if out.Totals.Files != int64(files) || out.Totals.LinesInRange != int64(120*files) || out.Totals.Errors != int64(60*files) {
				t.Errorf("%d files, %d bytes: the totals suffered: %+v", files, limit, out.Totals)
			}
			if out.Truncated.Logs != int64(files-len(out.Logs)) || out.Truncated.Config != int64(files-len(out.Config)) {
				t.Errorf("%d files, %d bytes: %d logs and %d settings left, %+v", files, limit, len(out.Logs), len(out.Config), out.Truncated)
			}
			cut := out.Truncated.ExcerptLines > 0
			if cut != out.Truncated.Any && out.Truncated.UnreadFiles == 0 {
				t.Errorf("%d files, %d bytes: %+v", files, limit, out.Truncated)
			}
			// Nothing else is cut while there are still lines of the excerpt to drop.
			t2 := out.Truncated
			if len(out.Excerpt) > 0 && t2.ConfigContents+t2.Messages+t2.ErrorGroups+t2.Problems+t2.Logs+t2.Config > 0 {
				t.Errorf("%d files, %d bytes: an excerpt of %d lines beside %+v", files, limit, len(out.Excerpt), t2)
			}
			if t2.Messages+t2.ErrorGroups > 0 && t2.ConfigContents == 0 {
				t.Errorf("%d files, %d bytes: messages were cut before settings: %+v", files, limit, t2)
			}
		}
	}
}

func TestCollectDropsPlainLinesFirst(t *testing.T) {
	t.Parallel()
	config := crowded(t, 2)
	config.ConfigFiles = nil
	config.MaxResultBytes = 60_000
	out := gather(t, config, `{"date":"2026-09-17","excerptLines":240,"topErrors":0}`, when(t, asOf))
	if len(out.Excerpt) == 0 || out.Truncated.ExcerptLines == 0 || len(out.Excerpt)+int(out.Truncated.ExcerptLines) != 240 {
		t.Fatalf("%d lines, %+v", len(out.Excerpt), out.Truncated)
	}
	for _, line := range out.Excerpt {
		if line.Level != "error" {
			t.Fatalf("a line of level %s is kept", line.Level)
		}
	}
	if last := out.Excerpt[len(out.Excerpt)-1].At; last != "2026-09-17T10:00:59.000+08:00" {
		t.Errorf("the last line was dropped; %s is", last)
	}
}

func TestCollectIsDeterministic(t *testing.T) {
	t.Parallel()
	config := crowded(t, 20)
	config.MaxResultBytes = 50_000
	var before json.RawMessage
	for range 3 {
		collector, err := collect.New(config)
		if err != nil {
			t.Fatal(err)
		}
		result, err := collector.Collect(t.Context(), json.RawMessage(day), when(t, asOf))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, result) {
			t.Fatal("the same files gave another result")
		}
		before = result
	}
}

// repeated is a text over and over.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// bomb packs so many bytes of the text.
func bomb(t testing.TB, path, text string, size int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(zip, &repeated{text: strings.Repeat(text, 1000)}, size); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zip.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestCollectCapsCompressionBombs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bomb(t, filepath.Join(dir, "app.log.1.gz"), line, 40<<20)
	config := shanghai(filepath.Join(dir, "app.log"))
	config.MaxDecompressedBytes = 1 << 20
	out := gather(t, config, day, when(t, asOf))
	if out.problem("decompression_capped") != "app.log.1.gz" || !out.Logs[0].Truncated.Content || !out.Truncated.Any {
		t.Errorf("got %v, %+v", out.Problems, out.Logs)
	}
	if want := int64(1<<20)/int64(len(line)) + 1; out.Totals.Lines != want {
		t.Errorf("%d lines, want %d", out.Totals.Lines, want)
	}
}

func TestCollectReadBudget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, name := range []string{"app.log", "app.log.1", "app.log.2"} {
		path := write(t, filepath.Join(dir, name), []byte(strings.Repeat(line, 10)))
		at := when(t, asOf).Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	config := shanghai(filepath.Join(dir, "app.log"))
	config.MaxReadBytes = int64(len(line)*20 + 5)
	out := gather(t, config, day, when(t, asOf))
	if out.problem("over_budget") != "app.log.2" || out.Totals.Files != 2 || out.Truncated.UnreadFiles != 1 || !out.Truncated.Any {
		t.Errorf("got %v, %+v", out.Problems, out.Truncated)
	}
	config.MaxReadBytes, config.MaxFiles = 0, 2
	if out = gather(t, config, day, when(t, asOf)); out.Totals.Files != 2 || out.Truncated.UnreadFiles == 0 {
		t.Errorf("%d files, %v", out.Totals.Files, out.Problems)
	}
}

func TestCollectLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x ", 5_000_000)
	path := write(t, filepath.Join(t.TempDir(), "app.log"), []byte(line+"2026-09-17 10:00:01 ERROR "+long+"\n"+line))
	out := gather(t, shanghai(path), day, when(t, asOf))
	log := out.Logs[0]
	if log.Lines != 3 || log.LinesInRange != 3 || log.Truncated.LongLines != 1 || log.SizeBytes < 10_000_000 || !out.Truncated.Any {
		t.Errorf("got %+v", log)
	}
	if len(out.Excerpt) != 3 || !out.Excerpt[2].Cut || len(out.Excerpt[2].Text) > 1024 || len(out.TopErrors[0].Message) > 300 {
		t.Errorf("got %d lines, %+v", len(out.Excerpt), out.TopErrors)
	}
}

// TestCollectStopsWhenToldTo uses files that take seconds to read: a sparse one, a packed one, one that is one line.
func TestCollectStopsWhenToldTo(t *testing.T) { // not parallel: it looks at the clock
	dir := t.TempDir()
	sparse := write(t, filepath.Join(dir, "sparse.log"), []byte(line))
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Fatal(err)
	}
	bomb(t, filepath.Join(dir, "packed.log.1.gz"), line, 300<<20)
	for _, name := range []string{"sparse.log", "packed.log"} {
		config := shanghai(filepath.Join(dir, name))
		config.MaxReadBytes, config.MaxDecompressedBytes = 1<<41, 1<<40
		for _, settings := range []bool{false, true} {
			if settings {
				config.ConfigFiles, config.Logs = []string{filepath.Join(dir, name+"*")}, nil
			}
			collector, err := collect.New(config)
			if err != nil {
				t.Fatal(err)
			}
			if settings && name == "packed.log" {
				continue // its content is taken only as far as a result has room, so it is over at once
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			begin := time.Now()
			_, err = collector.Collect(ctx, json.RawMessage(day), when(t, asOf))
			cancel()
			// It takes some milliseconds; the bound leaves room for a machine that is busy with other things.
			if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
				t.Errorf("%s: %v after %s", name, err, took)
			}
		}
	}
}

func TestCollectNeedsLittleMemory(t *testing.T) { // not parallel: it looks at the memory of the process
	dir := t.TempDir()
	bomb(t, filepath.Join(dir, "app.log.1.gz"), "2026-09-17 10:00:00 ERROR printer 12 failed at port 9100 for order 88231\n\tat com.x.Y\n", 40<<20)
	config := shanghai(filepath.Join(dir, "app.log"))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	out := gather(t, config, day, when(t, asOf))
	runtime.ReadMemStats(&after)
	// The system hands memory out and never takes it back from this figure, so it is the highest use.
	if grown := int64(after.Sys) - int64(before.Sys); grown > 32<<20 {
		t.Errorf("40 MB of logs took %d MiB of memory", grown>>20)
	}
	if out.Totals.Errors < 400_000 || out.TopErrors[0].Count < out.Totals.Errors-1 {
		t.Errorf("got %+v", out.Totals)
	}
}
