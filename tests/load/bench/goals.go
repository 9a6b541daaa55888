package bench

import (
	"maps"
	"slices"
)

// goal is what headquarters has to reach: a value of ours beside one of a peer, in
// the same repetition, or beside none.
type goal struct {
	what   string
	ours   ref
	least  bool // the bound is the least; else the most
	bound  float64
	beside ref // zero: the value itself is bounded
}

// verdict is how a goal stands.
type verdict struct {
	goal
	each []float64 // in order of size
}

func (v verdict) median() float64 { return median(v.each) }

func (v verdict) reached() bool {
	if v.least {
		return v.median() >= v.bound
	}
	return v.median() <= v.bound
}

func (g goal) judge(all []figure) verdict {
	v := verdict{goal: g}
	own, other := g.ours.of(all), g.beside.of(all)
	for rep, value := range own {
		switch beside, there := other[rep]; {
		case g.beside == ref{}:
			v.each = append(v.each, value)
		case there && beside > 0:
			v.each = append(v.each, value/beside)
		}
	}
	slices.Sort(v.each)
	return v
}

// goals are all of them, for each way to run: with signatures and without.
func goals() []goal {
	var out []goal
	for _, sys := range []string{"muster-signed", "muster"} {
		for _, w := range []int{500, 5000} {
			out = append(out, dispatchGoals(sys, w)...)
		}
		at := func(name, value string) ref { return ref{labelFanOut, name, value} }
		out = append(out,
			goal{"fan-out p99 / River", at(sys, "P99"), false, 0.4, at("river-shared", "P99")},
			goal{"fan-out p99 / NATS default", at(sys, "P99"), false, 1.0, at("nats-default-core", "P99")},
			goal{"fan-out p99 / mosquitto floor", at(sys, "P99"), false, 1.2, at("mosq-raw-none", "P99")},
			goal{"CPU a task at 100,000 / at 1,000", ref{labelGrowth(100_000), sys, "cpu_task"}, false, 1.15, ref{labelGrowth(1000), sys, "cpu_task"}},
			goal{"peak memory of a 5,000-terminal run, MiB", ref{labelDispatch(5000), sys, "RSSSrv"}, false, 400, ref{}},
		)
	}
	return append(out,
		goal{"CPU a task at 100,000 / at 1,000, one process", ref{labelInside(100_000), "muster", "cpu_task"}, false, 1.15, ref{labelInside(1000), "muster", "cpu_task"}},
		goal{"result intake / PostgreSQL in batches of 1,000", ref{labelIngest, "muster", "answers/s"}, true, 2, ref{labelIngest, "peers", "postgres_batch1000"}},
		goal{"result intake, results/s", ref{labelIngest, "muster", "answers/s"}, true, 20_000, ref{}},
		goal{"memory an idle terminal / NATS", ref{labelConns, "muster", "bytes_per_conn_after_gc"}, false, 0.7, ref{labelConns, "nats", "bytes_per_conn_after_gc"}},
		goal{"idle cores with 100,000 offers outstanding", ref{labelRestart, "muster", "idle_cores"}, false, 0.02, ref{}},
		goal{"restart to first delivery / Redis", ref{labelRestart, "muster", "first_delivery_ms"}, false, 0.5, ref{labelRestart, "asynq", "first_delivery_ms"}},
		goal{"restart to ready / PostgreSQL", ref{labelRestart, "muster", "ready_ms"}, false, 0.3, ref{labelRestart, "river", "first_delivery_ms"}},
		goal{"report (JSON) / River", ref{labelReport, "muster", "ReportMS"}, false, 0.5, ref{labelReport, "river-shared", "ReportMS"}},
		goal{"report (JSON) / row-scan floor", ref{labelReport, "muster", "ReportMS"}, false, 2, ref{labelReport, "scan", "scan_ms"}},
		goal{"JSON / bare scan of the rows", formats("json/scan-cpu"), false, 2, ref{}},
		goal{"CSV / bare scan of the rows", formats("csv/scan-cpu"), false, 4, ref{}},
		goal{"HTML / bare scan of the rows", formats("html/scan-cpu"), false, 4, ref{}},
		goal{"XLSX / excelize streaming the same cells", formats("xlsx/excelize-cpu"), false, 1.3, ref{}},
		goal{"report: peak memory, MiB", formats("peak-MiB"), false, 1024, ref{}},
		goal{"report: HTML, MB", formats("html-MB"), false, 40, ref{}},
		goal{"commits beside a report: p99, ms", ref{labelBeside, "muster", "beside-p99-ms"}, false, 100, ref{}},
		goal{"commits beside a report: longest, ms", ref{labelBeside, "muster", "beside-max-ms"}, false, 1000, ref{}},
		goal{"agent: resident idle, MiB", ref{labelAgent, "muster", "rss_mib"}, false, 20, ref{}},
		goal{"agent: idle cores", ref{labelAgent, "muster", "idle_cores"}, false, 0.001, ref{}},
		goal{"agent: largest binary, MB", ref{labelAgent, "muster", "largest"}, false, 20, ref{}},
	)
}

func formats(value string) ref { return ref{labelFormats, "muster", value} }

func dispatchGoals(sys string, w int) []goal {
	at := func(name, value string) ref { return ref{labelDispatch(w), name, value} }
	return []goal{
		{"tasks/s / River", at(sys, "TPS"), true, 2, at("river-shared", "TPS")},
		{"tasks/s / NATS always", at(sys, "TPS"), true, 4, at("nats-always-core", "TPS")},
		{"tasks/s / asynq always", at(sys, "TPS"), true, 6, at("asynq-always-shared", "TPS")},
		{"tasks/s / HTTP by hand", at(sys, "TPS"), true, 5, at("http-wal", "TPS")},
		{"tasks/s / mochi + SQLite, no claim", at(sys, "TPS"), true, 0.8, at("mochi-raw-full-late", "TPS")},
		{"CPU a task / River", at(sys, "cpu_task"), false, 0.7, at("river-shared", "cpu_task")},
		{"CPU a task / NATS always", at(sys, "cpu_task"), false, 0.35, at("nats-always-core", "cpu_task")},
	}
}

// systems are who was measured under a label, ours first.
func systems(all []figure, label string) []string {
	seen := map[string]bool{}
	for _, f := range all {
		if f.Label == label {
			seen[f.Sys] = true
		}
	}
	names := slices.Sorted(maps.Keys(seen))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

func rank(sys string) int {
	if len(sys) >= 6 && sys[:6] == "muster" {
		return 0
	}
	return 1
}
