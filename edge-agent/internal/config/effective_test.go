package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"muster/edge-agent/internal/config"
	"muster/internal/settings"
	"muster/tests/programs"
)

// TestWhatIsPrintedIsTheConfigurationAgain, read in another folder and from another.
func TestWhatIsPrintedIsTheConfigurationAgain(t *testing.T) {
	folder := t.TempDir()
	programs.WriteAll(t, filepath.Join(folder, "shop"), map[string]string{"secret": "hunter2pass\n", "least.yaml": "store: A\n", "most.yaml": `store: "007"
labels: {region: "东", "no": "1"}
broker: {password_file: secret}
identity: {folder: ""}
collect: {logs: ["logs/**/*.log"], encodings: {"logs/old/*.log": gbk, "*.txt": utf-8}, max_files: 7}
executors:
  - {type: a, version: 1, command: [./probe.sh, ./x]}
  - {type: b, version: 2, command: [probe, "say \"7\""], folder: .}
`})
	load := func(path string, over ...settings.Value) (*config.Config, error) {
		return config.Load(path, config.Overrides{Over: over})
	}
	for _, name := range []string{"least.yaml", "most.yaml"} {
		first, second, text := programs.Again(t, load, folder, filepath.Join("shop", name))
		if first.Password() != second.Password() || strings.Contains(text, "hunter2pass") {
			t.Errorf("%s: the password is %q, then %q:\n%s", name, first.Password(), second.Password(), text)
		}
		for _, line := range []string{"  max_result_bytes: 262144 #", "  max_read_bytes: 2147483648 # default", `  password: "" #`} {
			if !strings.Contains(text, "\n"+line) {
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
