package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/edge-agent/internal/config"
	"muster/internal/settings"
)

// TestWhatIsPrintedIsTheConfigurationAgain, read in another folder and from another.
func TestWhatIsPrintedIsTheConfigurationAgain(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"secret": "hunter2pass\n", "least.yaml": "store: A\n", "most.yaml": `store: "007"
labels: {region: "东", "no": "1"}
broker: {password_file: secret}
identity: {folder: ""}
collect: {logs: ["logs/**/*.log"], encodings: {"logs/old/*.log": gbk, "*.txt": utf-8}, max_files: 7}
executors:
  - {type: a, version: 1, command: [./probe.sh, ./x]}
  - {type: b, version: 2, command: [probe, "say \"7\""], folder: .}
`} {
		if err := os.WriteFile(filepath.Join(folder, "shop", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	printed := func(path string) (*config.Config, []settings.Effective, []byte) {
		t.Helper()
		c, err := config.Load(path, config.Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := settings.WriteEffective(&out, all); err != nil {
			t.Fatal(err)
		}
		return c, all, out.Bytes()
	}
	for _, name := range []string{"least.yaml", "most.yaml"} {
		t.Chdir(folder)
		first, before, text := printed(filepath.Join("shop", name))
		t.Chdir(elsewhere)
		if err := os.WriteFile("again.yaml", text, 0o600); err != nil {
			t.Fatal(err)
		}
		second, after, _ := printed("again.yaml")
		if unlike := settings.Changed(before, after); len(unlike) > 0 {
			t.Errorf("%s: read back, %v differ:\n%s", name, unlike, text)
		}
		if first.Password() != second.Password() || strings.Contains(string(text), "hunter2pass") {
			t.Errorf("%s: the password is %q, then %q:\n%s", name, first.Password(), second.Password(), text)
		}
		for _, line := range []string{"  max_result_bytes: 262144 #", "  max_read_bytes: 2147483648 # default", `  password: "" #`} {
			if !strings.Contains(string(text), "\n"+line) {
				t.Errorf("%s: no line %q in\n%s", name, line, text)
			}
		}
	}
}

// TestWhatPrintsLeavesTheConfigurationAlone: lists and maps are shared by copies.
func TestWhatPrintsLeavesTheConfigurationAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := config.Load("", config.Overrides{Store: "1", Over: []settings.Value{{Key: "collect.logs", Text: "[logs/*.log]"},
		{Key: "collect.encodings", Text: `{"logs/*.log": gbk}`}, {Key: "executors", Text: "[{type: a, version: 1, command: [./x], folder: .}]"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Effective(); err != nil {
		t.Fatal(err)
	}
	if c.Collect.Logs[0] != "logs/*.log" || c.Collect.Encodings["logs/*.log"] != "gbk" || c.Executors[0].Folder != "." || c.Executors[0].MaxOutputBytes != 0 {
		t.Errorf("got %+v", c)
	}
}

// TestEncodingsAreOfFilesBesideTheFile, as every path of it.
func TestEncodingsAreOfFilesBesideTheFile(t *testing.T) {
	t.Parallel()
	path := write(t, `store: "007"
collect: {encodings: {"logs/*.log": gbk, "*.txt": utf-8, "**/old/*": cp950}}
`)
	c, err := config.Load(path, config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	for glob, want := range map[string]string{filepath.Join(filepath.Dir(path), "logs/*.log"): "gbk", "*.txt": "utf-8", "**/old/*": "cp950"} {
		if got := c.Collect.Encodings[glob]; got != want {
			t.Errorf("%s is %q, want %s: %v", glob, got, want, c.Collect.Encodings)
		}
	}
}
