package collect_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/collect"
	"muster/internal/redact"
)

// members packs a text so often, each time as a member of its own: a gigabyte in a moment.
func members(t testing.TB, text string, times int) []byte {
	t.Helper()
	return bytes.Repeat(packed(t, []byte(text)), times)
}

// TestS19BombsCostNoMoreThanTheirCap unpacks files of a gigabyte each, in lines and in one line, as logs and as settings.
func TestS19BombsCostNoMoreThanTheirCap(t *testing.T) { // not parallel: it looks at the memory of the process
	const unpacked, limit = 1 << 30, 4 << 20
	part := strings.Repeat(line, 64<<10)
	for name, content := range map[string][]byte{
		"lines":    members(t, part, unpacked/len(part)),
		"one line": members(t, strings.Repeat("\x00", 16<<20), unpacked/(16<<20)),
	} {
		dir := t.TempDir()
		path := write(t, filepath.Join(dir, "app.log.1.gz"), content)
		config := shanghai(filepath.Join(dir, "app.log"))
		config.ConfigFiles = []string{path}
		config.MaxDecompressedBytes = limit
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		begin := time.Now()
		out := gather(t, config, day, when(t, asOf))
		// What is capped takes 0.1 s, the whole gigabyte half a minute.
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.Sys) - int64(before.Sys); grown > 32<<20 {
			t.Errorf("%s: a bomb of %d bytes took %d MiB of memory", name, len(content), grown>>20)
		}
		if out.problem("decompression_capped") != "app.log.1.gz" || len(out.Logs) != 1 || !out.Logs[0].Truncated.Content || !out.Truncated.Any {
			t.Errorf("%s: got %v, %+v", name, out.Problems, out.Logs)
		}
		if most := int64(limit/len(line)) + 1; out.Totals.Lines > most || out.Totals.Lines == 0 || out.Logs[0].SizeBytes != int64(len(content)) {
			t.Errorf("%s: %d lines of %d bytes, at most %d fit the cap", name, out.Totals.Lines, out.Logs[0].SizeBytes, most)
		}
		if len(out.Config) != 1 || !out.Config[0].ContentTruncated && !out.Config[0].Binary {
			t.Errorf("%s: the settings are shown as whole: %+v", name, out.Config)
		}
	}
}

// TestS19APackedFileInAPackedFileIsNotUnpacked: only the outer one is, and the entry does not pass for a log.
func TestS19APackedFileInAPackedFileIsNotUnpacked(t *testing.T) {
	t.Parallel()
	inner := members(t, strings.Repeat(line, 64<<10), 200)
	outer := packed(t, packed(t, inner))
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "app.log.1.gz"), outer)
	config := shanghai(filepath.Join(dir, "app.log"))
	config.ConfigFiles = []string{path}
	out := gather(t, config, day, when(t, asOf))
	if len(out.Logs) != 1 || out.Logs[0].SizeBytes != int64(len(outer)) || out.Totals.LinesInRange != 0 || out.Totals.Errors != 0 {
		t.Errorf("got %+v", out.Logs)
	}
	if out.problem("no_timestamps") != "app.log.1.gz" {
		t.Errorf("nothing says that the file is no log: %v", out.Problems)
	}
	if len(out.Config) != 1 || !out.Config[0].Binary || out.Config[0].Content != "" {
		t.Errorf("it is shown as settings: %+v", out.Config)
	}
}

// TestHeadquartersFindsNothingLeftToBlackOut: it looks over a result by the same rules, and what it finds raises an alarm.
func TestHeadquartersFindsNothingLeftToBlackOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secrets := strings.Join([]string{
		"2026-09-17 10:00:00 ERROR login of bob failed: password=S3cr3tHx9, token: abc123def456",
		`2026-09-17 10:00:01 ERROR call {"user":"bob","password":"S3cr3t\"Hx9","pin":1234} to mysql://pos:S3cr3t@db/pos`,
		"\tAuthorization: Bearer S3cr3tS3cr3tHx9", "2026-09-17 10:00:02 WARN 数据库密码：S3cr3tHx9", "-----BEGIN PRIVATE KEY-----",
		"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "-----END PRIVATE KEY-----", "2026-09-17 10:00:03 ERROR <password>S3cr3tHx9</password>",
		"2026-09-17 10:00:04 FATAL conn=Server=db;User Id=sa;Password=S3cr3t Hx9;Database=pos", "secret: |", "  S3cr3t", "  Hx9", "",
	}, "\n")
	config := shanghai(write(t, filepath.Join(dir, "app.log"), []byte(strings.Repeat(secrets, 40))))
	config.ConfigFiles = []string{
		write(t, filepath.Join(dir, "app.ini"), []byte("[db]\npassword = S3cr3t#Hx9 \\\n  more\nhost = x\n"+strings.Repeat("token=S3cr3tHx9\n", 300))),
		write(t, filepath.Join(dir, "app.yaml"), []byte("db:\n  secrets:\n  - S3cr3t\n  - name: DB_PASSWORD\n    value: S3cr3tHx9\nhost: x\n")),
		write(t, filepath.Join(dir, "app.xml"), []byte(`<c><add key="ApiToken" value="S3cr3tHx9"/><pwd><![CDATA[S3cr3t]]></pwd></c>`)),
	}
	for _, most := range []int{0, 60_000, 30_000, 16_000, 8192} {
		config.MaxResultBytes = most
		collector, err := collect.New(config)
		if err != nil {
			t.Fatal(err)
		}
		result, err := collector.Collect(t.Context(), json.RawMessage(day), when(t, asOf))
		if err != nil {
			t.Fatal(err)
		}
		if clean, places := redact.JSON(result); places != 0 || bytes.Contains(clean, []byte("S3cr3t")) {
			at := 0
			for at < len(clean) && at < len(result) && clean[at] == result[at] {
				at++
			}
			t.Errorf("%d bytes: %d places, the first in %s", most, places, result[max(0, at-100):min(len(result), at+60)])
		}
		if !bytes.Contains(result, []byte(redact.Mark)) {
			t.Errorf("%d bytes: nothing was redacted", most)
		}
	}
}
