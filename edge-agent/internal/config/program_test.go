package config_test

import (
	"path/filepath"
	"testing"

	"muster/edge-agent/internal/config"
)

// TestAProgramIsSoughtBesideTheFile: where it has a folder, it is sought there when it starts.
func TestAProgramIsSoughtBesideTheFile(t *testing.T) {
	t.Parallel()
	path := write(t, `store: "007"
executors:
  - {type: a, version: 1, command: [./probe.sh, ./x]}
  - {type: b, version: 1, command: [../probe.sh]}
  - {type: c, version: 1, command: [probe]}
  - {type: d, version: 1, command: [./probe.sh], folder: .}
`)
	c, err := config.Load(path, config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(path)
	for i, want := range []string{filepath.Join(folder, "probe.sh"), filepath.Join(filepath.Dir(folder), "probe.sh"), "probe", "./probe.sh"} {
		if got := c.Executors[i].Command[0]; got != want {
			t.Errorf("command %d is %s, want %s", i, got, want)
		}
	}
	if got := c.Executors[0].Command[1]; got != "./x" {
		t.Errorf("the argument is %s", got)
	}
}
