package bench_test

import (
	"strings"
	"testing"

	"muster/tests/load/bench"
)

func figure(sys string, rep int, tps float64) bench.Figure {
	return bench.Figure{Label: "dispatch, W = 500, N = 5,000", Sys: sys, Rep: rep, Values: map[string]float64{"TPS": tps}, Commit: "abc"}
}

// TestRatiosAreOfTheSameRepetition: a slow minute hits both sides, and a repetition
// that one side lacks says nothing. What was measured again counts as measured last.
func TestRatiosAreOfTheSameRepetition(t *testing.T) {
	t.Parallel()
	all := []bench.Figure{
		figure("muster", 1, 50), figure("muster", 1, 1000), figure("river-shared", 1, 100), // 10
		figure("muster", 2, 10), figure("river-shared", 2, 10), // 1
		figure("muster", 3, 30), figure("river-shared", 3, 10), // 3
		figure("muster", 4, 1), figure("river-shared", 5, 1),
		{Label: "dispatch, W = 500, N = 5,000", Sys: "river-shared", Rep: 4, Failed: "it was slow"},
	}
	for _, c := range []struct {
		least   bool
		bound   float64
		reached bool
	}{{true, 3, true}, {true, 3.1, false}, {false, 3, true}, {false, 2.9, false}} {
		got, reps, reached := bench.Judge(all, "dispatch, W = 500, N = 5,000", "muster", "TPS", "river-shared", "TPS", c.least, c.bound)
		if got != 3 || reps != 3 || reached != c.reached {
			t.Errorf("%+v: got %v of %d, %v", c, got, reps, reached)
		}
	}
	text := bench.Page(all)
	for _, want := range []string{"| tasks/s / River<br>dispatch, W = 500, N = 5,000 | muster | ≥ 2 | 3 (1-10.0) | 3 | reached |",
		"Muster at abc.", "| muster | 20.0 |", "| river-shared (1 failed) | 10.0 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}

func TestEveryGoalIsMeasured(t *testing.T) {
	t.Parallel()
	if missing := bench.Unmeasured(); len(missing) > 0 {
		t.Errorf("goals speak of %q", missing)
	}
}

// TestAFigureHoldsEveryNumberOfItsLine, those of members of members too.
func TestAFigureHoldsEveryNumberOfItsLine(t *testing.T) {
	t.Parallel()
	var f bench.Figure
	if err := f.Read(`{"Sys":"x","N":1000,"WallMS":5,"CPUSrv":0.1,"CPUExt":0.2,"CPUWrk":0.3,"mb":{"a/b":2.5},"Note":"report 5 rows"}`); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"WallMS": 5, "mb.a/b": 2.5, "cpu_task": 600, "cpu_server": 300} {
		if got := f.Values[name]; got < want-1e-6 || got > want+1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if err := f.Read(`{"N":5,"WallMS":5,"Note":"TIMEOUT with 3 of 5 "}`); err == nil {
		t.Error("a case that did not end counts")
	}
	if err := f.Read(`panic: no`); err == nil {
		t.Error("what is no line counts")
	}
}

// TestABenchmarksLastLineIsReadByUnit.
func TestABenchmarksLastLineIsReadByUnit(t *testing.T) {
	t.Parallel()
	got, err := bench.Metrics("goos: linux\nBenchmarkX/1-2 \t 1\t5 ns/op\t 1.5 json/scan\nBenchmarkX/2-2 \t 20\t5 ns/op\t 2.5 json/scan\t 1e+02 answers/s\nPASS\n")
	if err != nil || got["json/scan"] != 2.5 || got["answers/s"] != 100 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := bench.Metrics("PASS\n"); err == nil {
		t.Errorf("nothing reads as %v", got)
	}
}
