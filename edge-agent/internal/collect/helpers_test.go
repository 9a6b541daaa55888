package collect_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"muster/edge-agent/internal/collect"
)

// output mirrors the job's output as a reader of the contract would write it down.
type output struct {
	Date, TimeZone, RangeStart, RangeEnd string
	RangeStartMs, RangeEndMs             int64
	Totals                               struct {
		Files, Bytes, Lines, LinesInRange, Errors, Warnings, UndecodableBytes, ErrorGroups, ConfigFiles, Problems int64
	}
	Logs []struct {
		Path, Compression, Encoding, EncodingBasis                                            string
		SizeBytes, UndecodableBytes, Lines, LinesInRange, ContinuationLines, LinesWithoutTime int64
		Levels                                                                                map[string]int64
		FirstAt, LastAt, FileFirstAt, FileLastAt                                              string
		Truncated                                                                             struct {
			LongLines int64
			Content   bool
		}
	}
	TopErrors []struct {
		Message, Example, Level string
		Count                   int64
		Cut                     bool
	}
	Excerpt []struct {
		Path, At, Level, Text string
		Line                  int64
		Cut                   bool
	}
	Config []struct {
		Path, SHA256, Encoding, Content string
		SizeBytes, Redactions           int64
		Binary, ContentTruncated        bool
	}
	Problems  []struct{ Code, Path, Detail string }
	Truncated struct {
		Any                                                                                                      bool
		ExcerptLines, ConfigContents, Messages, ErrorGroups, UngroupedLines, Problems, Logs, Config, UnreadFiles int64
	}
}

func (o output) problem(code string) string {
	for _, p := range o.Problems {
		if p.Code == code {
			return filepath.Base(p.Path)
		}
	}
	return ""
}

// repositoryRoot goes up to the folder of go.mod.
func repositoryRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

func schema(t testing.TB, name string) *gojsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repositoryRoot(t), "schemas", name))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := gojsonschema.NewSchema(gojsonschema.NewBytesLoader(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return compiled
}

func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func packed(t testing.TB, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zip := gzip.NewWriter(&buffer)
	if _, err := zip.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// shanghai is a configuration for the logs that the globs name.
func shanghai(logs ...string) collect.Config {
	return collect.Config{TimeZone: "Asia/Shanghai", Logs: logs}
}

func when(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// gather collects and checks what holds for every output: its schema, its bound, and that its sums agree.
func gather(t testing.TB, config collect.Config, input string, asOf time.Time) output {
	t.Helper()
	collector, err := collect.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return gatherWith(t, collector, config, input, asOf)
}

func gatherWith(t testing.TB, c *collect.Collector, config collect.Config, input string, asOf time.Time) output {
	t.Helper()
	text, err := c.Collect(t.Context(), json.RawMessage(input), asOf)
	if err != nil {
		t.Fatal(err)
	}
	limit := config.MaxResultBytes
	if limit == 0 {
		limit = 262144
	}
	if len(text) > limit {
		t.Errorf("the result has %d bytes, more than %d", len(text), limit)
	}
	if !utf8.Valid(text) {
		t.Error("the result is no valid UTF-8")
	}
	if bytes.Contains(text, []byte("\uFFFD")) {
		t.Error("a byte became U+FFFD in silence")
	}
	checked, err := schema(t, "collect_log_output.v1.schema.json").Validate(gojsonschema.NewBytesLoader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range checked.Errors() {
		t.Errorf("the output breaks its schema: %v", fault)
	}
	var out output
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	for _, log := range out.Logs {
		sum := log.ContinuationLines
		for _, count := range log.Levels {
			sum += count
		}
		if sum != log.LinesInRange {
			t.Errorf("%s: levels and continuation lines make %d, in range are %d", log.Path, sum, log.LinesInRange)
		}
	}
	return out
}
