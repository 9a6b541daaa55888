package collect_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"

	"muster/edge-agent/internal/collect"
)

const (
	day    = `{"date":"2026-09-17"}`
	asOf   = "2026-09-18T07:30:00+08:00"
	line   = "2026-09-17 10:00:00 INFO sold\n"
	error1 = "2026-09-17 11:00:00 ERROR printer failed\n"
)

func TestCollectReadsRotatedAndPackedSiblings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string][]byte{
		"app.log": []byte(line + error1), "app.log.1": []byte(line), "app.log.2.gz": packed(t, []byte(line+line+error1)),
		"app-2026-09-17.log": []byte(line), "app.log.2026-09-17": []byte(line), "pay.log": []byte(line),
		"app.log.3.gz": append(packed(t, []byte(line)), packed(t, []byte(line))...),
	}
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	out := gather(t, shanghai(filepath.Join(dir, "app.log")), day, when(t, asOf))
	if len(out.Logs) != 6 || out.Totals.LinesInRange != 10 || out.Totals.Errors != 2 || len(out.Problems) != 0 {
		t.Errorf("%d logs, %+v, %v", len(out.Logs), out.Totals, out.Problems)
	}
	for _, log := range out.Logs {
		if size := len(files[filepath.Base(log.Path)]); log.SizeBytes != int64(size) {
			t.Errorf("%s: %d bytes, want %d", log.Path, log.SizeBytes, size)
		}
		if want := map[bool]string{true: "gzip", false: "none"}[strings.HasSuffix(log.Path, ".gz")]; log.Compression != want {
			t.Errorf("%s: compression %s", log.Path, log.Compression)
		}
	}
	if len(out.TopErrors) != 1 || out.TopErrors[0].Message != "printer failed" || out.TopErrors[0].Count != 2 {
		t.Errorf("got %+v", out.TopErrors)
	}
}

func TestCollectReadsEncodings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const simplified = "2026-09-17 10:00:00 错误 打印机缺纸，订单88\r\n2026-09-17 10:00:01 信息 收银完成"
	const traditional = "2026-09-17 10:00:00 錯誤 印表機缺紙，訂單88\r\n2026-09-17 10:00:01 資訊 收銀完成"
	encoded := func(text []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	files := map[string][]byte{
		"utf-8.log": []byte(simplified), "utf-8-bom.log": []byte("\xef\xbb\xbf" + simplified),
		"gb18030.log":  encoded(simplifiedchinese.GB18030.NewEncoder().Bytes([]byte(simplified))),
		"big5.log":     encoded(traditionalchinese.Big5.NewEncoder().Bytes([]byte(traditional))),
		"utf-16le.log": encoded(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().Bytes([]byte(simplified))),
		"utf-16be.log": encoded(unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().Bytes([]byte(simplified))),
	}
	files["gbk-declared.log.1.gz"] = packed(t, files["gb18030.log"])
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	config := shanghai(filepath.Join(dir, "*.log"))
	config.Encodings = map[string]string{"gbk-*.log": "GB2312", "*": "utf-8", filepath.Join(dir, "b*"): "cp950", "utf-16*": "utf-16", "utf-16be.log": "utf-16be", "gb1*": "gbk"}
	for _, declared := range []bool{true, false} {
		if !declared {
			config.Encodings = nil
		}
		out := gather(t, config, day, when(t, asOf))
		if len(out.Logs) != 7 || out.Totals.Errors != 7 || out.Totals.LinesInRange != 14 || out.Totals.UndecodableBytes != 0 {
			t.Errorf("declared %v: %d logs, %+v", declared, len(out.Logs), out.Totals)
		}
		for _, log := range out.Logs {
			name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(log.Path), ".log"), "-bom")
			if !declared && !strings.HasPrefix(name, "gbk") && log.Encoding != name {
				t.Errorf("%s: detected %s", name, log.Encoding)
			}
			if declared != (log.EncodingBasis == "declared") {
				t.Errorf("%s: basis %s, declared %v", name, log.EncodingBasis, declared)
			}
		}
		if got := out.TopErrors[0].Message; got != "打印机缺纸，订单#" {
			t.Errorf("declared %v: the most frequent error is %q", declared, got)
		}
	}
}

func TestCollectSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good.log"), []byte(line))
	write(t, filepath.Join(dir, "no-time.log"), []byte("a\nb\n"))
	write(t, filepath.Join(dir, "empty.log"), nil)
	write(t, filepath.Join(dir, "broken.log.1.gz"), packed(t, bytes.Repeat([]byte(line), 1000))[:60])
	write(t, filepath.Join(dir, "bad.log.1.gz"), []byte("\x1f\x8b\x08 this is no gzip"))
	write(t, filepath.Join(dir, "old.log.1.bz2"), []byte("BZh91AY&SY"))
	for link, target := range map[string]string{
		"folder.log": dir, "loop.log": "loop.log", "gone.log": "nowhere", "again.log": "good.log", "endless.log": "/dev/zero",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "real-folder.log"), 0o755); err != nil {
		t.Fatal(err)
	}
	pipe(t, filepath.Join(dir, "pipe.log"))
	config := shanghai(filepath.Join(dir, "*.log"), filepath.Join(dir, "none", "*.log"))
	config.ConfigFiles = []string{filepath.Join(dir, "missing.ini"), filepath.Join(dir, "pipe.log")}
	out := gather(t, config, day, when(t, asOf))
	got := make(map[string]string)
	for _, p := range out.Problems {
		if name := filepath.Base(p.Path); got[name] == "" {
			got[name] = p.Code
		}
		if p.Detail == "" {
			t.Errorf("%s: no detail", p.Path)
		}
	}
	want := map[string]string{
		"no-time.log": "no_timestamps", "broken.log.1.gz": "corrupt_gzip", "bad.log.1.gz": "corrupt_gzip", "old.log.1.bz2": "unsupported_compression",
		"folder.log": "not_regular", "loop.log": "unreadable", "gone.log": "vanished", "endless.log": "not_regular", "pipe.log": "not_regular",
		"*.log": "no_match", "missing.ini": "no_match",
	}
	// Which of two names of one file is read first does not matter.
	for _, name := range []string{"again.log", "good.log"} {
		if code, ok := got[name]; ok && code == "same_file" {
			delete(got, name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if out.Totals.LinesInRange < 1 || out.Totals.Files != 6 {
		t.Errorf("got %+v", out.Totals)
	}
}

func TestCollectUnreadableFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything; the case of a looping link stands for it")
	}
	path := write(t, filepath.Join(t.TempDir(), "app.log"), []byte(line))
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if out := gather(t, shanghai(path), day, when(t, asOf)); out.problem("unreadable") != "app.log" {
		t.Errorf("got %v", out.Problems)
	}
}

func TestCollectSurvivesRotation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		lines  int64
	}{
		{"renamed one by one", func(t *testing.T, dir string) {
			rename(t, dir, "app.log.1", "app.log.2")
			rename(t, dir, "app.log", "app.log.1")
			write(t, filepath.Join(dir, "app.log"), []byte(line))
		}, 2 + 3 + 1},
		{"oldest deleted before it was read", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "app.log.1")); err != nil {
				t.Fatal(err)
			}
		}, 2},
		{"rewritten before it was read", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "app.log.1"), []byte(line))
		}, 2 + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "app.log"), []byte(line+line))
			old := write(t, filepath.Join(dir, "app.log.1"), []byte(line+line+line))
			past := when(t, "2026-09-17T12:00:00+08:00")
			if err := os.Chtimes(old, past, past); err != nil {
				t.Fatal(err)
			}
			config := shanghai(filepath.Join(dir, "app.log"))
			collector, err := collect.New(config)
			if err != nil {
				t.Fatal(err)
			}
			done := false
			collect.OnRead(collector, func(path string) {
				if !done && filepath.Base(path) == "app.log" {
					done = true
					c.change(t, dir)
				}
			})
			out := gatherWith(t, collector, config, day, when(t, asOf))
			if !done || out.Totals.LinesInRange != c.lines {
				t.Errorf("%d lines in range, want %d (%v)", out.Totals.LinesInRange, c.lines, out.Problems)
			}
		})
	}
}

func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
		t.Fatal(err)
	}
}

func TestCollectContinuationLines(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "app.log"), []byte(
		"banner without time\n2026-09-17 10:00:00 ERROR [main] order 7 failed\njava.lang.X: bad\n\tat a.B(C.java:3)\nCaused by: y at 2026-01-01 00:00:00 z\n\n"+
			"2026-09-18 00:00:01 ERROR later\n\tat a.B\n"))
	out := gather(t, shanghai(path), day, when(t, asOf))
	log := out.Logs[0]
	if log.LinesWithoutTime != 1 || log.LinesInRange != 5 || log.ContinuationLines != 4 || log.Lines != 8 || out.Totals.Errors != 1 {
		t.Errorf("got %+v", log)
	}
	if out.TopErrors[0].Message != "[main] order # failed" || out.TopErrors[0].Example != "[main] order 7 failed" {
		t.Errorf("got %+v", out.TopErrors)
	}
}

func TestCollectTimeOfDayAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pos-2026-09-17.log"), []byte("07:30:05.123 [ERROR] x\n07:30:06 [INFO] y\n"))
	write(t, filepath.Join(dir, "pos-2026-09-16.log"), []byte("07:30:05.123 [ERROR] x\n"))
	out := gather(t, shanghai(filepath.Join(dir, "pos.log")), day, when(t, asOf))
	if out.Totals.LinesInRange != 2 || out.Totals.Errors != 1 {
		t.Errorf("got %+v", out.Totals)
	}
}

func TestCollectColours(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "app.log"), []byte("\x1b[2m2026-09-17 10:00:00\x1b[0m \x1b[31mERROR\x1b[0m boom\x1b[0m\n"))
	out := gather(t, shanghai(path), day, when(t, asOf))
	if out.Totals.Errors != 1 || out.TopErrors[0].Message != "boom" {
		t.Errorf("got %+v, %+v", out.Totals, out.TopErrors)
	}
}
