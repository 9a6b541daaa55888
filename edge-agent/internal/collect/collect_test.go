package collect_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/xeipuuv/gojsonschema"

	"muster/edge-agent/internal/collect"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]collect.Config{
		`cannot use time_zone: it is missing`:                                                        {},
		`cannot use time_zone "Local": name the store's zone, such as "Asia/Shanghai"`:               {TimeZone: "Local"},
		`cannot use time_zone "Asia/Shangai": unknown time zone Asia/Shangai`:                        {TimeZone: "Asia/Shangai"},
		`cannot use logs[1] "/var/log/[": the pattern is malformed`:                                  {TimeZone: "UTC", Logs: []string{"/var/log/*.log", "/var/log/["}},
		`cannot use logs[0] "": the pattern is empty`:                                                {TimeZone: "UTC", Logs: []string{""}},
		`cannot use config_files[0] "/etc/{pos": the pattern is malformed`:                           {TimeZone: "UTC", ConfigFiles: []string{"/etc/{pos"}},
		`cannot use config_files[0] "/etc/": the pattern names a directory, not files`:               {TimeZone: "UTC", ConfigFiles: []string{"/etc/"}},
		`cannot use encodings["[a"]: the pattern is malformed`:                                       {TimeZone: "UTC", Encodings: map[string]string{"[a": "gbk"}},
		`cannot use timestamp_layouts[0] "15:04:05"`:                                                 {TimeZone: "UTC", TimestampLayouts: []string{"15:04:05"}},
		`cannot use encodings["*.log"]: cannot use encoding "klingon": known are big5, gb18030, gbk`: {TimeZone: "UTC", Encodings: map[string]string{"*.log": "klingon"}},
		`cannot use max_result_bytes 262145: it must lie between 8192 and 262144`:                    {TimeZone: "UTC", MaxResultBytes: 262145},
		`cannot use max_result_bytes 10: it must lie between 8192 and 262144`:                        {TimeZone: "UTC", MaxResultBytes: 10},
		`cannot use max_read_bytes -1: it is negative`:                                               {TimeZone: "UTC", MaxReadBytes: -1},
		`cannot use max_decompressed_bytes -1: it is negative`:                                       {TimeZone: "UTC", MaxDecompressedBytes: -1},
		`cannot use max_files -1: it is negative`:                                                    {TimeZone: "UTC", MaxFiles: -1},
	} {
		if _, err := collect.New(config); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestConfigIsReadFromYAML(t *testing.T) {
	t.Parallel()
	const text = `
logs: [/var/log/pos/*.log]
config_files: [/etc/pos/pos.ini]
time_zone: Asia/Shanghai
encodings: {"*.log": gbk}
timestamp_layouts: ["02|01|2006 15:04:05"]
max_result_bytes: 65536
max_read_bytes: 1073741824
max_decompressed_bytes: 104857600
max_files: 100
`
	var config collect.Config
	if err := yaml.UnmarshalWithOptions([]byte(text), &config, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if config.MaxFiles != 100 || config.Encodings["*.log"] != "gbk" || config.MaxReadBytes != 1<<30 || len(config.TimestampLayouts) != 1 {
		t.Errorf("got %+v", config)
	}
	if _, err := collect.New(config); err != nil {
		t.Error(err)
	}
}

func TestCollectRefusesInput(t *testing.T) {
	t.Parallel()
	collector, err := collect.New(shanghai())
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"date":"17.09.2026"}`: `cannot use the input: date "17.09.2026": it must be a date such as 2026-09-17, or yesterday`,
		`{"date":"2026-02-30"}`: `cannot use the input: date "2026-02-30": it must be a date such as 2026-09-17, or yesterday`,
		`{"date":20260917}`:     `cannot use the input: date: it must be a string`,
		`{"excerptLines":1001}`: `cannot use the input: excerptLines: it must be a whole number between 0 and 1000`,
		`{"excerptLines":1.5}`:  `cannot use the input: excerptLines: it must be a whole number between 0 and 1000`,
		`{"topErrors":-1}`:      `cannot use the input: topErrors: it must be a whole number between 0 and 100`,
		`{"topErrors":null}`:    `cannot use the input: topErrors: it must be a whole number between 0 and 100`,
		`{"topErrors":"5"}`:     `cannot use the input: topErrors: it must be a whole number between 0 and 100`,
		`["2026-09-17"]`:        `cannot use the input: json: cannot unmarshal array`,
		`{`:                     `cannot use the input: unexpected end of JSON input`,
	} {
		if _, err := collector.Collect(t.Context(), json.RawMessage(input), when(t, asOf)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v", input, err)
		}
	}
	for _, input := range []string{`{"fromLater":1,"Date":"x"}`, `{"excerptLines":1.0,"topErrors":0}`, `{}`, ``, `null`} {
		if out := gather(t, shanghai(), input, when(t, asOf)); out.Date != "2026-09-17" || out.problem("not_configured") != "." {
			t.Errorf("%s: got %s, %v", input, out.Date, out.Problems)
		}
	}
}

func TestCollectListsAsManyAsAskedFor(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "app.log"), []byte(
		strings.Repeat("2026-09-17 10:00:00 ERROR alpha\n", 3)+strings.Repeat("2026-09-17 10:00:00 ERROR beta\n", 2)+"2026-09-17 10:00:00 ERROR gamma\n"))
	out := gather(t, shanghai(path), `{"date":"2026-09-17","excerptLines":4,"topErrors":2}`, when(t, asOf))
	if len(out.Excerpt) != 4 || len(out.TopErrors) != 2 || out.TopErrors[1].Message != "beta" || out.Totals.ErrorGroups != 3 || out.Truncated.Any {
		t.Errorf("%d lines, %+v, %+v", len(out.Excerpt), out.TopErrors, out.Truncated)
	}
	if out.Excerpt[3].Line != 6 {
		t.Errorf("the last line is %+v", out.Excerpt[3])
	}
}

func TestCollectLetsNoSecretOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The secret stands where each kind of file puts its own, and where cutting might leave half of it.
	const secret = "S3cr3tHx9"
	write(t, filepath.Join(dir, "pos.ini"), []byte("[db]\nhost=10.0.0.5\npassword=S3cr3tHx9\n;token=S3cr3tHx9\n"))
	write(t, filepath.Join(dir, "pos.yaml"), []byte("db:\n  host: x\n  password: |\n    S3cr3tHx9\n    S3cr3tHx9\nurl: redis://:S3cr3tHx9@cache/0\n"))
	write(t, filepath.Join(dir, "pos.json"), []byte(`{"min":1,"credentials":{"key":"S3cr3tHx9"},"conn":"Server=x;Password=S3cr3tHx9;Db=y"}`))
	write(t, filepath.Join(dir, "pos.xml"), []byte("<c><add key='ApiToken' value='S3cr3tHx9'/>\r\n<password>\r\nS3cr3tHx9\r\n</password></c>"))
	write(t, filepath.Join(dir, "门店.conf"), []byte("数据库密码：S3cr3tHx9\n门店=上海\n"))
	write(t, filepath.Join(dir, "pos.p12"), append(bytes.Repeat([]byte{0, 1, 2, 0x81, 0xff}, 50), "S3cr3tHx9"...))
	write(t, filepath.Join(dir, "wide.ini"), []byte("\xff\xfep\x00w\x00d\x00=\x00S\x003\x00c\x00r\x003\x00t\x00H\x00x\x009\x00\n\x00"))
	write(t, filepath.Join(dir, "key.pem"), []byte("-----BEGIN PRIVATE KEY-----\nS3cr3tHx9\n-----END PRIVATE KEY-----\n"))
	for _, pad := range []int{0, 440, 455, 470, 480, 490, 960, 980, 990, 1000} {
		write(t, filepath.Join(dir, "app"+strings.Repeat("x", pad%97)+".log"), []byte("2026-09-17 10:00:00 ERROR "+strings.Repeat("y", pad)+
			" open mysql://pos:S3cr3tHx9@db/pos failed password=S3cr3tHx9 and token: S3cr3tHx9\n2026-09-17 10:00:01 ERROR Authorization: Bearer S3cr3tHx9\n"+
			"{\"password\":\"S3cr3tHx9\"}\n-----BEGIN RSA PRIVATE KEY-----\n"+strings.Repeat("S3cr3tHx9\n", 300)+"-----END RSA PRIVATE KEY-----\n"+
			"2026-09-17 10:00:02 ERROR "+strings.Repeat("z", 16_300+pad%90)+" http://u:S3cr3tHx9@h\n"))
	}
	config := shanghai(filepath.Join(dir, "*.log"))
	config.ConfigFiles = []string{filepath.Join(dir, "*.{ini,yaml,json,xml,conf,p12,pem}")}
	fingerprints := hashes(t, filepath.Join(dir, "*"))
	write(t, filepath.Join(dir, "plain.ini"), []byte("store=0001\n"))
	collector, err := collect.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []string{"5", "50", "1000"} {
		result, err := collector.Collect(t.Context(), json.RawMessage(`{"date":"2026-09-17","excerptLines":`+lines+`}`), when(t, asOf))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{secret, "S3cr3t", "3tHx9", "S3cr"} {
			if at := bytes.Index(result, []byte(part)); at >= 0 {
				t.Fatalf("%s is out: …%s…", part, result[max(0, at-80):at+20])
			}
		}
		for name, sum := range fingerprints {
			if bytes.Contains(result, []byte(sum)) {
				t.Errorf("the hash of %s is out: with the rest of the file it tells a short secret", name)
			}
		}
		var out output
		if err := json.Unmarshal(result, &out); err != nil {
			t.Fatal(err)
		}
		for _, c := range out.Config {
			if filepath.Base(c.Path) == "plain.ini" {
				if want := "9dc4d37f4feb7c9f00714ba59bf2fc2b8570d52df57a711445da5fbf10118cdc"; c.SHA256 != want {
					t.Errorf("the hash of a file without secrets is %s, want %s", c.SHA256, want)
				}
				continue
			}
			if c.Redactions == 0 != c.Binary || c.Binary != strings.HasSuffix(c.Path, ".p12") {
				t.Errorf("%s: %d redactions, binary %v, %q", c.Path, c.Redactions, c.Binary, c.Content)
			}
		}
		if len(out.Config) != 9 || out.Config[2].Content != "[db]\nhost=10.0.0.5\npassword=[redacted]\n;token=[redacted]" {
			t.Errorf("%d settings, %q", len(out.Config), out.Config[2].Content)
		}
	}
}

// hashes are the SHA-256 of files as they lie, by their names.
func hashes(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatal("nothing to hash:", err)
	}
	sums := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		sums[name] = hex.EncodeToString(sum[:])
	}
	return sums
}

func TestExamplesOfTheSchemas(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"collect_log_input", "collect_log_output"} {
		compiled := schema(t, name+".v1.schema.json")
		examples, err := filepath.Glob(filepath.Join(repositoryRoot(t), "schemas", "examples", name, "*.json"))
		if err != nil || len(examples) < 5 {
			t.Fatalf("%s: %d examples, %v", name, len(examples), err)
		}
		for _, example := range examples {
			text, err := os.ReadFile(example)
			if err != nil {
				t.Fatal(err)
			}
			checked, err := compiled.Validate(gojsonschema.NewBytesLoader(text))
			if err != nil {
				t.Fatal(err)
			}
			if valid := strings.HasPrefix(filepath.Base(example), "valid-"); checked.Valid() != valid {
				t.Errorf("%s: %v", filepath.Base(example), checked.Errors())
			}
		}
	}
}

// TestAnswerWithOtherFieldNamesIsRefused stands for every executor that is older than the contract.
func TestAnswerWithOtherFieldNamesIsRefused(t *testing.T) {
	t.Parallel()
	compiled := schema(t, "collect_log_output.v1.schema.json")
	path := write(t, filepath.Join(t.TempDir(), "app.log"), []byte(error1))
	config := shanghai(path)
	config.ConfigFiles = []string{path}
	collector, err := collect.New(config)
	if err != nil {
		t.Fatal(err)
	}
	result, err := collector.Collect(t.Context(), json.RawMessage(day), when(t, asOf))
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(result, &document); err != nil {
		t.Fatal(err)
	}
	var walk func(place string, node any) int
	walk = func(place string, node any) int {
		tried := 0
		switch node := node.(type) {
		case []any:
			for _, child := range node {
				tried += walk(place+"/0", child)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(node)) {
				value := node[key]
				delete(node, key)
				node[key+"_old"] = value
				checked, err := compiled.Validate(gojsonschema.NewGoLoader(document))
				if err != nil {
					t.Error(errors.Join(errors.New(place), err))
				} else if checked.Valid() {
					t.Errorf("%s/%s may be called otherwise", place, key)
				}
				delete(node, key+"_old")
				node[key] = value
				tried += 1 + walk(place+"/"+key, value)
			}
		}
		return tried
	}
	if tried := walk("", document); tried < 80 {
		t.Errorf("only %d names were tried", tried)
	}
}

func BenchmarkCollect(b *testing.B) {
	dir := b.TempDir()
	text := strings.Repeat("2026-09-17 10:00:00,123 INFO  [pool-1-thread-7] com.pos.Till - sold 12 pieces of 690123456789 for 88.50\n"+
		"2026-09-16 10:00:00,123 WARN  [pool-1-thread-7] com.pos.Printer - 缺纸\n", 200_000)
	path := write(b, filepath.Join(dir, "app.log"), []byte(text))
	collector, err := collect.New(shanghai(path))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := collector.Collect(b.Context(), json.RawMessage(day), when(b, asOf)); err != nil {
			b.Fatal(err)
		}
	}
}
