package bench

import (
	"fmt"
	"strconv"
)

// step is one measurement of a benchmark: a command that prints a line of JSON,
// ours or the peers' program's.
type step struct {
	label string // what is measured; measurements with the same one are compared
	sys   string
	who   who
	args  []string
	think string // how long the peers' terminals execute
}

// who runs a step.
type who int

const (
	ours who = iota
	peers
	inProcess // a benchmark beside the code, run with go test: its name, package and times
)

// Labels of what is measured.
const (
	labelFanOut  = "fan-out, W = N = 5,000, executing for 2 s"
	labelIngest  = "results taken in"
	labelConns   = "9,500 idle terminals"
	labelRestart = "kill -9 with 100,000 open tasks"
	labelReport  = "report of 100,000"
	labelFormats = "report of 100,000, format by format"
	labelBeside  = "commits beside a report of 100,000"
	labelAgent   = "agent"
)

func labelDispatch(w int) string { return fmt.Sprintf("dispatch, W = %s, N = 5,000", thousands(w)) }

func labelGrowth(n int) string { return fmt.Sprintf("growth, W = 500, N = %s", thousands(n)) }

func labelInside(n int) string { return fmt.Sprintf("growth, W = N = %s, one process", thousands(n)) }

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// parts are what bench can measure, in this order, each with its groups: the steps
// of a group take turns.
func parts() []string {
	return []string{"dispatch", "fanout", "ingest", "conns", "restart", "report", "formats", "growth", "agent"}
}

func groups(part string) [][]step {
	switch part {
	case "dispatch":
		return [][]step{dispatch(500), dispatch(5000)}
	case "fanout":
		return [][]step{fanOut()}
	case "ingest":
		return [][]step{{
			{label: labelIngest, sys: "muster", who: inProcess, args: []string{"BenchmarkHandleResult", "muster/dispatcher/internal/intake", "20x"}},
			{label: labelIngest, sys: "peers", who: peers, args: []string{"ingest"}},
			ourCase(labelIngest, "muster-signed", 20_000, 500, "-signed", "-hold"),
			ourCase(labelIngest, "muster-unsigned", 20_000, 500, "-hold"),
		}}
	case "conns":
		return [][]step{{
			{label: labelConns, sys: "muster", args: []string{"conns", "-w", "9500"}},
			{label: labelConns, sys: "nats", who: peers, args: []string{"conns", "-sys", "nats", "-w", "9500"}},
		}}
	case "restart":
		return [][]step{{
			{label: labelRestart, sys: "muster", args: []string{"restart", "-n", "100000"}},
			{label: labelRestart, sys: "asynq", who: peers, args: []string{"restart", "-sys", "asynq", "-n", "100000"}},
			{label: labelRestart, sys: "river", who: peers, args: []string{"restart", "-sys", "river", "-n", "100000"}},
		}}
	case "report":
		return [][]step{{
			{label: labelReport, sys: "muster", args: []string{"growth", "-n", "100000"}},
			peerCase(labelReport, "river-shared", 100_000, 500, ""),
			{label: labelReport, sys: "scan", who: peers, args: []string{"report", "-n", "100000"}},
		}}
	case "formats":
		return [][]step{{
			{label: labelFormats, sys: "muster", who: inProcess, args: []string{"BenchmarkReportOfHundredThousandStores", "muster/dispatcher/app/rollcall", "1x"}},
			{label: labelBeside, sys: "muster", who: inProcess, args: []string{"BenchmarkIntakeBesideAReport", "muster/dispatcher/app/rollcall", "1x"}},
		}}
	case "growth":
		return [][]step{growth()}
	case "agent":
		return [][]step{{{label: labelAgent, sys: "muster", args: []string{"agent"}}}}
	}
	return nil
}

func dispatch(w int) []step {
	label := labelDispatch(w)
	out := []step{ourCase(label, "muster-signed", 5000, w, "-signed"), ourCase(label, "muster", 5000, w)}
	for _, sys := range []string{"river-shared", "nats-always-core", "asynq-always-shared", "http-wal", "mochi-raw-full-late", "mochi-raw-full-late-claim"} {
		out = append(out, peerCase(label, sys, 5000, w, ""))
	}
	return out
}

func fanOut() []step {
	const think = "2s"
	out := []step{ourCase(labelFanOut, "muster-signed", 5000, 5000, "-signed", "-think", think), ourCase(labelFanOut, "muster", 5000, 5000, "-think", think)}
	for _, sys := range []string{"river-shared", "nats-default-core", "mosq-raw-none"} {
		out = append(out, peerCase(labelFanOut, sys, 5000, 5000, think))
	}
	return out
}

func growth() (out []step) {
	for _, n := range []int{1000, 10_000, 100_000} {
		out = append(out, ourCase(labelGrowth(n), "muster-signed", n, 500, "-signed"), ourCase(labelGrowth(n), "muster", n, 500),
			step{label: labelInside(n), sys: "muster", args: []string{"growth", "-n", strconv.Itoa(n)}})
	}
	return out
}

func ourCase(label, sys string, n, w int, more ...string) step {
	return step{label: label, sys: sys, args: append([]string{"case", "-n", strconv.Itoa(n), "-w", strconv.Itoa(w)}, more...)}
}

func peerCase(label, sys string, n, w int, think string) step {
	return step{label: label, sys: sys, who: peers, think: think, args: []string{"case", "-sys", sys, "-n", strconv.Itoa(n), "-w", strconv.Itoa(w)}}
}
