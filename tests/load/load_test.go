package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/tests/programs"
)

var bin string // where the programs are; written before the tests run

func TestMain(m *testing.M) {
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder },
		programs.Programs{Packages: []string{"muster/tests/load"}, Into: "tests"}))
}

// TestACaseGoesItsWholeWay: a dispatch over real connections, several runs at once,
// with and without signatures, is measured only when every task was offered,
// granted and receipted once; and what must be counted is not zero.
func TestACaseGoesItsWholeWay(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-n 60 -w 20", "-n 10 -w 10 -think 100ms", "-n 64 -w 8 -signed"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "tests", "load"), append([]string{"case",
				"-dispatcher", filepath.Join(bin, "dispatcher"), "-folder", t.TempDir()}, strings.Fields(args)...)...)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var row struct{ WallMS, TPS, P50, P99, Max, GrantP99, CPUSrv, RSSSrv float64 }
			if err := json.Unmarshal(out, &row); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if row.TPS <= 0 || row.P50 <= 0 || row.P50 > row.P99 || row.P99 > row.Max || row.GrantP99 <= row.P50 || row.GrantP99 > row.WallMS || row.CPUSrv <= 0 || row.RSSSrv <= 10 {
				t.Errorf("the row contradicts itself: %s", out)
			}
			if strings.Contains(args, "think") && row.WallMS < 100 {
				t.Errorf("nobody took time: %s", out)
			}
		})
	}
}
