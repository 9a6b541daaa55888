package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/parser"

	"muster/internal/settings"
)

type sample struct {
	Name  string        `yaml:"name"`
	Wait  time.Duration `yaml:"wait"`
	Quiet bool          `yaml:"quiet"`
	Inner struct {
		Count int `yaml:"count"`
	} `yaml:"inner"`
}

func TestDecodeRefusesWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, want string }{
		"unknown key":  {"name: a\ninner:\n  cuont: 3\n", `x.yaml:3: unknown field "cuont"; did you mean "count"?`},
		"missing unit": {"name: a\nwait: 30\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"quoted":       {"name: a\nwait: \"30\"\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"bare zero":    {"name: a\nwait: \"0\"\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"other unit":   {"name: a\nwait: 30秒\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"yes":          {"name: a\nquiet: yes\n", "x.yaml:2: quiet: must be true or false"},
		"fraction":     {"inner:\n  count: 1.5\n", "x.yaml:2: inner.count: must be a whole number"},
		"no value":     {"name:\ninner:\n  count: 1\n", "x.yaml:1: name: must be a text, in quotes"},
		"null":         {"inner:\n  count: null\n", "x.yaml:2: inner.count: must be a whole number"},
		"bare id":      {"name: 007\n", "x.yaml:1: name: must be a text, in quotes"},
		"wrong type":   {"inner:\n  count: many\n", "x.yaml:2: inner.count: must be a whole number"},
		"syntax":       {"name: [a\n", "x.yaml:1: "},
		"twice":        {"name: a\nname: b\n", "x.yaml:2: "},
		"not a map":    {"- a\n", "x.yaml:1: must be keys with their values, such as key: value, a line each"},
		"list":         {"inner: [a]\n", "x.yaml:1: inner: must be keys with their values"},
		"text":         {"inner: a\n", "x.yaml:1: inner: must be keys with their values"},
		"text of many": {"name: [a]\n", "x.yaml:1: name: must be a text, in quotes"},
		"keys":         {"inner:\n  count: {a: 1}\n", "x.yaml:2: inner.count: must be a whole number"},
		"second":       {"name: a\n---\nnmae: b\n", "x.yaml:2: a second document begins here; write one"},
		"second twice": {"# c\n---\n---\nname: a\n", "x.yaml:3: a second document begins here; write one"},
		"second void":  {"---\n# none\n--- # here\r\nname: a\n", "x.yaml:3: a second document begins here; write one"},
		"second bare":  {"name: a\n...\n\nquiet: true\n", "x.yaml:4: a second document begins here; write one"},
		"second last":  {"name: a\n---\n", "x.yaml:2: a second document begins here; write one"},
		"UTF-16":       {"n\x00a\x00m\x00e\x00:\x00", "x.yaml: is not UTF-8; save it as UTF-8"},
		"GBK":          {"name: \xb2\xe2\n", "x.yaml: is not UTF-8; save it as UTF-8"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dst sample
			_, err := settings.Decode("x.yaml", []byte(tc.text), &dst)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Fatalf("got %v, want a refusal that starts with %q", err, tc.want)
			}
		})
	}
}

func TestDefaultsStayWhereAKeyIsAbsent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"# c\n---\nname: one\n", "---\nname: one\n...\n", "%YAML 1.2\n---\nname: one\n", "\n...\nname: one # ---\n...\n# end\n", "name: >-\n  one\n"} {
		var one sample
		if _, err := settings.Decode("x.yaml", []byte(text), &one); err != nil || one.Name != "one" {
			t.Errorf("%q: got %+v, %v", text, one, err)
		}
	}
	dst := sample{Name: "kept", Wait: time.Minute}
	if _, err := settings.Decode("x.yaml", []byte("\xef\xbb\xbfinner:\n  count: 3\n"), &dst); err != nil {
		t.Fatal(err)
	}
	if dst.Name != "kept" || dst.Wait != time.Minute || dst.Inner.Count != 3 {
		t.Fatalf("got %+v", dst)
	}
	for _, text := range []string{"", "\n", "# all as it is\n", "---\n", "---\n# nothing\n...\n", "null\n", "~\n", "inner:\n", "inner: {}\n"} {
		file, err := settings.Decode("x.yaml", []byte(text), &dst)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if dst.Name != "kept" || dst.Wait != time.Minute || dst.Inner.Count != 3 {
			t.Fatalf("%q left %+v", text, dst)
		}
		if got, want := file.Errorf("$.name", "is bad").Error(), "x.yaml: name: is bad"; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestAFileThatHoldsNoSettingIsRefused: it was cut off, most likely.
func TestAFileThatHoldsNoSettingIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "d.yaml")
	for _, text := range []string{"", "\xef\xbb\xbf", "# all as it is\n---\n", "null\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := settings.Load(path, &sample{}); err == nil || !strings.HasPrefix(err.Error(), path+": holds no setting") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestErrorfNamesTheLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "d.yaml")
	if err := os.WriteFile(path, []byte("name: a\n\ninner:\n  count: -1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var dst sample
	file, err := settings.Load(path, &dst)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := file.Errorf("$.inner.count", "must be %d or more", 1).Error(), path+":4: inner.count: must be 1 or more\n   4 |   count: -1\n     |          ^"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := file.Errorf("$.wait", "is required").Error(), path+": wait: is required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAFileIsParsedOnce compares what is allocated: tokens and nodes are most of it.
func TestAFileIsParsedOnce(t *testing.T) {
	var text strings.Builder
	text.WriteString("users:\n")
	for i := range 500 {
		fmt.Fprintf(&text, "  - {name: u%d, role: technician, password: \"x\"}\n", i)
	}
	data := []byte(text.String())
	parse := testing.AllocsPerRun(3, func() {
		if _, err := parser.ParseBytes(data, 0); err != nil {
			t.Error(err)
		}
	})
	decode := testing.AllocsPerRun(3, func() {
		var users struct {
			Users []struct {
				Name     string `yaml:"name"`
				Role     string `yaml:"role"`
				Password string `yaml:"password"`
			} `yaml:"users"`
		}
		if _, err := settings.Decode("users.yaml", data, &users); err != nil || len(users.Users) != 500 || users.Users[499].Name != "u499" {
			t.Errorf("%d users, %v", len(users.Users), err)
		}
	})
	if decode > 2*parse {
		t.Errorf("reading allocates %.0f times, a tree %.0f", decode, parse)
	}
}

func TestWhatAnAnchorNamesIsRead(t *testing.T) {
	t.Parallel()
	var got struct {
		First  sample            `yaml:"first"`
		Second sample            `yaml:"second"`
		Third  sample            `yaml:"third"`
		Texts  map[string]string `yaml:"texts"`
		Any    any               `yaml:"any"`
	}
	_, err := settings.Decode("x.yaml", []byte("%YAML 1.2\n# who\n---\nfirst: &one\n  name: a\n  wait: 2s\n  inner: {count: 3}\nsecond: *one\nthird:\n  <<: *one\n  quiet: true\n"+
		"texts: {k: &t \"v\", l: *t}\nany: [1, *t, {labels: x}]\n"), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := sample{Name: "a", Wait: 2 * time.Second}
	want.Inner.Count = 3
	if got.First != want || got.Second != want || got.Texts["l"] != "v" || fmt.Sprint(got.Any) != "[1 v map[labels:x]]" {
		t.Errorf("%+v", got)
	}
	if want.Quiet = true; got.Third != want {
		t.Errorf("merged: %+v", got.Third)
	}
}
