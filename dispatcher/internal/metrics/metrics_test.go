package metrics_test

import (
	"testing"
	"time"

	"muster/dispatcher/internal/metrics"
)

func TestAPageIsInTheTextFormat(t *testing.T) {
	t.Parallel()
	var p metrics.Page
	p.Counter("muster_grants_total", "Grants given.", metrics.Of(int64(1_000_000)))
	p.Gauge("muster_alarms", "A \\ and\na line.", metrics.Labelled(2, "kind", "a\"b\\c\nd", "severity", "warning"), metrics.Labelled(0.5, "kind", "店"))
	h := metrics.NewHistogram(0.001, 0.01)
	for _, d := range []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Second} {
		h.Note(d)
	}
	p.Histogram("muster_commit_seconds", "Commits.", h)
	want := `# HELP muster_grants_total Grants given.
# TYPE muster_grants_total counter
muster_grants_total 1e+06
# HELP muster_alarms A \\ and\na line.
# TYPE muster_alarms gauge
muster_alarms{kind="a\"b\\c\nd",severity="warning"} 2
muster_alarms{kind="店"} 0.5
# HELP muster_commit_seconds Commits.
# TYPE muster_commit_seconds histogram
muster_commit_seconds_bucket{le="0.001"} 1
muster_commit_seconds_bucket{le="0.01"} 2
muster_commit_seconds_bucket{le="+Inf"} 3
muster_commit_seconds_sum 1.003
muster_commit_seconds_count 3
`
	if got := string(p.Bytes()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
