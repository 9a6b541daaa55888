package bench

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

//go:embed preface.md
var preface string

// quiet is how many cores others may use while something is measured.
const quiet = 0.3

// column is a value of a table.
type column struct{ title, value string }

// columns are what is shown of a label: those that somebody has.
func columns() []column {
	return []column{
		{"tasks/s", "TPS"}, {"offer p50 ms", "P50"}, {"offer p99 ms", "P99"}, {"grant p99 ms", "GrantP99"},
		{"CPU µs a task", "cpu_task"}, {"of that servers", "cpu_server"}, {"server MiB", "RSSSrv"}, {"external MiB", "RSSExt"},
		{"results/s", "Ingest"}, {"results/s in process", "answers/s"}, {"PostgreSQL by 1,000", "postgres_batch1000"}, {"PostgreSQL singly", "postgres_batch1"},
		{"SQLite group commit", "sqlite_group_commit_FULL"},
		{"bytes a terminal", "bytes_per_conn_after_gc"}, {"ready ms", "ready_ms"}, {"first delivery ms", "first_delivery_ms"},
		{"JSON ms", "ReportMS"}, {"all formats ms", "AllMS"}, {"scan ms", "scan_ms"}, {"idle cores", "idle_cores"},
		{"scan s", "scan-s"}, {"JSON / scan", "json/scan-cpu"}, {"with all before it / scan", "json-out/scan-cpu"}, {"CSV / scan", "csv/scan-cpu"}, {"HTML / scan", "html/scan-cpu"},
		{"XLSX / scan", "xlsx/scan-cpu"}, {"all / scan", "whole/scan-cpu"}, {"XLSX / excelize", "xlsx/excelize-cpu"}, {"peak MiB", "peak-MiB"}, {"HTML MB", "html-MB"},
		{"commits", "commits"}, {"p99 ms alone", "alone-p99-ms"}, {"p99 ms beside", "beside-p99-ms"}, {"longest ms beside", "beside-max-ms"},
		{"resident MiB", "rss_mib"}, {"linux/amd64 MB", "mb.linux/amd64"}, {"linux/arm64 MB", "mb.linux/arm64"},
		{"linux/armv7 MB", "mb.linux/arm/7"}, {"windows/amd64 MB", "mb.windows/amd64"}, {"other cores", "Other"},
	}
}

// page is the document of all figures.
func page(all []figure) string {
	var b strings.Builder
	b.WriteString(preface)
	fmt.Fprintf(&b, "\n%s\n", machine())
	if slices.ContainsFunc(all, func(f figure) bool { return f.Values["Other"] > quiet }) {
		fmt.Fprintf(&b, "\n**A first look.** Other programs used more than %v of a core during some of these measurements: see \"other cores\".\n", quiet)
	}
	fmt.Fprintf(&b, "\nMeasured: Muster at %s.\n\n## Goals\n\nMedian ratio of the same repetition, with the least and the most.\n\n", strings.Join(commits(all), ", "))
	b.WriteString("| what | who | goal | measured | repetitions | |\n|---|---|---|---|---|---|\n")
	for _, g := range goals() {
		v := g.judge(all)
		if len(v.each) == 0 {
			continue
		}
		sign, verdict := "≤", "**missed**"
		if g.least {
			sign = "≥"
		}
		if v.reached() {
			verdict = "reached"
		}
		fmt.Fprintf(&b, "| %s<br>%s | %s | %s %s | %s (%s-%s) | %d | %s |\n", g.what, g.ours.label, g.ours.sys, sign, short(g.bound),
			short(v.median()), short(v.each[0]), short(v.each[len(v.each)-1]), len(v.each), verdict)
	}
	b.WriteString("\n## Figures\n\nMedians. \"Other cores\" is what programs that are not part of the measurement used meanwhile.\n")
	for _, label := range labels(all) {
		table(&b, all, label)
	}
	return b.String()
}

func labels(all []figure) (out []string) {
	for _, part := range parts() {
		for _, group := range groups(part) {
			for _, s := range group {
				if !slices.Contains(out, s.label) && len(systems(all, s.label)) > 0 {
					out = append(out, s.label)
				}
			}
		}
	}
	return out
}

// table writes the medians of a label.
func table(b *strings.Builder, all []figure, label string) {
	names := systems(all, label)
	var shown []column
	for _, c := range columns() {
		if slices.ContainsFunc(names, func(sys string) bool { return medianOf(all, label, sys, c.value) != 0 }) {
			shown = append(shown, c)
		}
	}
	fmt.Fprintf(b, "\n### %s\n\n| who |", label)
	for _, c := range shown {
		fmt.Fprintf(b, " %s |", c.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(shown)) + "\n")
	for _, sys := range names {
		fmt.Fprintf(b, "| %s%s |", sys, failures(all, label, sys))
		for _, c := range shown {
			if v := medianOf(all, label, sys, c.value); v != 0 {
				fmt.Fprintf(b, " %s |", short(v))
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
}

// failures says how many measurements of a system came to nothing.
func failures(all []figure, label, sys string) string {
	n := 0
	for _, f := range all {
		if f.Label == label && f.Sys == sys && f.Failed != "" {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d failed)", n)
}

func medianOf(all []figure, label, sys, value string) float64 {
	return median(slices.Collect(maps.Values(ref{label, sys, value}.of(all))))
}

// short writes a number as people compare it: three digits, more where it is large.
func short(v float64) string {
	switch {
	case v >= 1000:
		return thousands(int(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func commits(all []figure) (out []string) {
	for _, f := range all {
		if f.Commit != "" && !slices.Contains(out, f.Commit) {
			out = append(out, f.Commit)
		}
	}
	return out
}

// machine says on what it was measured.
func machine() string {
	processor := "an unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo") // where there is none it stays unknown
	for line := range bytes.Lines(info) {
		if name, found := strings.CutPrefix(string(line), "model name"); found {
			processor = strings.TrimLeft(strings.TrimSpace(name), ": ")
			break
		}
	}
	memory, kernel := "?", "?"
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kib); err == nil {
			memory = fmt.Sprint((kib + 1<<19) >> 20)
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(release))
	}
	return fmt.Sprintf("Machine: %s, %d processors, %s GiB, Linux %s, %s.", processor, runtime.NumCPU(), memory, kernel, runtime.Version())
}
