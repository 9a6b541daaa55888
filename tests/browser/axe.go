package browser

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/tests/programs"
)

//go:embed package.json package-lock.json
var pinned embed.FS

// Axe is the script of axe-core in its pinned version.
func Axe(t testing.TB) string {
	t.Helper()
	npm := programs.Installed(t, "npm")
	dir := t.TempDir()
	if err := os.CopyFS(dir, pinned); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline") //nolint:gosec // it is the machine's
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		programs.Lack(t, "axe-core cannot be had: %v\n%s", err, said)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// Findings are what axe has against the page as it stands, a line each, by the rules
// of WCAG 2.2 up to AA and its own best practices.
func (t *Tab) Findings(axe string) []string {
	t.browser.t.Helper()
	t.Eval(axe+"\n;undefined", nil)
	var found []struct {
		ID, Help string
		Nodes    []struct {
			Target         []any
			HTML           string
			FailureSummary string
		}
	}
	t.Eval(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations)`, &found)
	var lines []string
	for _, f := range found {
		node := f.Nodes[0]
		lines = append(lines, fmt.Sprintf("%s: %s (%d places, first %v: %.200s; %s)", f.ID, f.Help, len(f.Nodes), node.Target, node.HTML,
			strings.ReplaceAll(node.FailureSummary, "\n", " ")))
	}
	return lines
}
