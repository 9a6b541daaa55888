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

// measure runs a command and reads its line.
func measure(t *testing.T, into any, command string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "tests", "load"), append(strings.Fields(command), "-folder", t.TempDir())...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, stderr.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

// TestACaseGoesItsWholeWay: a dispatch over real connections, several runs at once,
// with and without signatures, is measured only when every task was offered,
// granted and receipted once; and what must be counted is not zero.
func TestACaseGoesItsWholeWay(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-n 60 -w 20", "-n 10 -w 10 -think 100ms", "-n 64 -w 8 -signed"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var row struct{ WallMS, TPS, P50, P99, Max, GrantP99, CPUSrv, RSSSrv float64 }
			out := measure(t, &row, "case -dispatcher "+filepath.Join(bin, "dispatcher")+" "+args)
			if row.TPS <= 0 || row.P50 <= 0 || row.P50 > row.P99 || row.P99 > row.Max || row.GrantP99 <= row.P50 || row.GrantP99 > row.WallMS || row.CPUSrv <= 0 || row.RSSSrv <= 10 {
				t.Errorf("the row contradicts itself: %s", out)
			}
			if strings.Contains(args, "think") && row.WallMS < 100 {
				t.Errorf("nobody took time: %s", out)
			}
		})
	}
}

// TestGrowthEndsWithAReport: terminals without descriptors go the same way, and the
// report that follows names all of them.
func TestGrowthEndsWithAReport(t *testing.T) {
	t.Parallel()
	var row struct{ TPS, ReportMS, AllMS float64 }
	if out := measure(t, &row, "growth -n 50"); row.TPS <= 0 || row.ReportMS <= 0 || row.AllMS < row.ReportMS {
		t.Errorf("the row contradicts itself: %s", out)
	}
}

// TestAKilledHeadquartersOffersAgain, measured from the start of its process.
func TestAKilledHeadquartersOffersAgain(t *testing.T) {
	t.Parallel()
	var line struct {
		Ready float64 `json:"ready_ms"`
		First float64 `json:"first_delivery_ms"`
		RSS   float64 `json:"rss_mb"`
	}
	if out := measure(t, &line, "restart -n 50 -dispatcher "+filepath.Join(bin, "dispatcher")); line.Ready <= 0 || line.First <= 0 || line.RSS <= 10 {
		t.Errorf("the line contradicts itself: %s", out)
	}
}

// TestIdleTerminalsAreWeighed: one costs headquarters some kilobytes.
func TestIdleTerminalsAreWeighed(t *testing.T) {
	t.Parallel()
	var line struct {
		Bytes int `json:"bytes_per_conn_after_gc"`
	}
	if out := measure(t, &line, "conns -w 100"); line.Bytes < 1<<10 || line.Bytes > 1<<20 {
		t.Errorf("a terminal does not weigh so much: %s", out)
	}
}
