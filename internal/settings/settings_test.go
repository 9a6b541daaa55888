package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		"unknown key":  {"name: a\ninner:\n  cuont: 3\n", `x.yaml:3: unknown field "cuont"`},
		"missing unit": {"name: a\nwait: 30\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"quoted":       {"name: a\nwait: \"30\"\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"bare zero":    {"name: a\nwait: \"0\"\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"other unit":   {"name: a\nwait: 30秒\n", "x.yaml:2: wait: must be a duration with its unit, such as 45s"},
		"yes":          {"name: a\nquiet: yes\n", "x.yaml:2: quiet: must be true or false"},
		"fraction":     {"inner:\n  count: 1.5\n", "x.yaml:2: inner.count: must be a whole number"},
		"bare id":      {"name: 007\n", "x.yaml:1: name: must be a text, in quotes"},
		"wrong type":   {"inner:\n  count: many\n", "x.yaml:2: inner.count: must be a whole number"},
		"syntax":       {"name: [a\n", "x.yaml:1: "},
		"twice":        {"name: a\nname: b\n", "x.yaml:2: "},
		"not a map":    {"- a\n", "x.yaml:1: "},
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
	dst := sample{Name: "kept", Wait: time.Minute}
	if _, err := settings.Decode("x.yaml", []byte("\xef\xbb\xbfinner:\n  count: 3\n"), &dst); err != nil {
		t.Fatal(err)
	}
	if dst.Name != "kept" || dst.Wait != time.Minute || dst.Inner.Count != 3 {
		t.Fatalf("got %+v", dst)
	}
	if _, err := settings.Decode("x.yaml", nil, &dst); err != nil {
		t.Fatalf("an empty file: %v", err)
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
	if got, want := file.Errorf("$.inner.count", "must be %d or more", 1).Error(), path+":4: inner.count: must be 1 or more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := file.Errorf("$.wait", "is required").Error(), path+": wait: is required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
