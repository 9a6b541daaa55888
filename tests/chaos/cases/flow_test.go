package cases_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/tests/programs"
)

// TestFiveHundredResultsASecondFlowWhileALargeReportIsWritten: while the four
// files of a report of 100,000 rows are written, results come at 500 a second,
// and none waits for its receipt for more than a second.
func TestFiveHundredResultsASecondFlowWhileALargeReportIsWritten(t *testing.T) {
	// Not parallel: it is about time.
	rows, terminals, each := full(100_000, 10_000), full(500, 100), full(30, 20)
	bound := time.Second
	if !programs.Full() {
		bound = 30 * time.Second // beside everything else that is tested
	}
	stores := make([]string, rows)
	for i := range stores {
		stores[i] = fmt.Sprintf("S%06d", i)
	}
	h := newHouse(t, none(), stores)
	h.serve()
	list, err := json.Marshal(stores[:terminals])
	if err != nil {
		t.Fatal(err)
	}
	for range each {
		h.run(string(list))
	}
	all := h.puppets(stores[:terminals], false)
	h.none("the start of everything", `SELECT count(*) FROM attempts WHERE started_at > 0 HAVING count(*) <> ?`, terminals*each)
	work := h.work(all)
	quiet := len(work) / 4 // the same without the report, to compare
	pace(work[:quiet], 500, func() bool { return false })
	programs.Eventually(t, "every receipt before", func() bool { return sum(all, received) == quiet })
	t.Logf("without the report: %s", waits(all))
	large := h.run(`"all"`, `,"barrierSeconds":10`)
	h.none("the barrier of the large run", `SELECT run_id FROM runs WHERE run_id = ? AND barrier_closed_at = 0`, large)
	for _, p := range all {
		p.forget()
	}
	began, used := time.Now(), h.hq.CPU()
	sent := pace(work[quiet:], 500, func() bool { return h.manifest(large) })
	programs.Eventually(t, "every receipt", func() bool { return sum(all, received) == sent })
	took := time.Since(began)
	t.Logf("%d rows; %d results, all in after %v, the report whole by then: %v; %s; headquarters used %v of the processors and at most %d MiB",
		rows, sent, took.Round(time.Millisecond), h.manifest(large), waits(all), h.hq.CPU()-used, h.hq.Peak())
	if n := sum(all, func(p *puppet) int { return len(p.refusals) }); n > 0 || sent < 200 {
		t.Errorf("%d results were sent, %d refused", sent, n)
	}
	if w := waited(all); w[len(w)-1] > bound {
		t.Errorf("a result waited for %v", w[len(w)-1])
	}
	programs.Eventually(t, "the large report", func() bool { return h.manifest(large) })
}

func received(p *puppet) int { return len(p.waited) }

// waited is how long each result waited for its receipt, shortest first.
func waited(all []*puppet) (list []time.Duration) {
	for _, p := range all {
		p.mu.Lock()
		list = slices.AppendSeq(list, maps.Values(p.waited))
		p.mu.Unlock()
	}
	slices.Sort(list)
	return list
}

func waits(all []*puppet) string {
	list := waited(all)
	n := len(list)
	return fmt.Sprintf("receipt of %d after p50 %v, p99 %v, max %v", n, list[n/2], list[n*99/100], list[n-1])
}

// job is one result that is ready to be sent.
type job struct {
	by   *puppet
	task string
}

// work lists what the terminals run, each terminal in its turn.
func (h *house) work(all []*puppet) (list []job) {
	h.t.Helper()
	by := map[string]*puppet{}
	for _, p := range all {
		by[p.store] = p
	}
	for _, row := range h.rows(`SELECT store_id, task_id FROM tasks WHERE status = 'RUNNING' ORDER BY run_id, store_id`) {
		store, task, _ := strings.Cut(row, " ")
		list = append(list, job{by[store], task})
	}
	return list
}

// pace sends so many results a second, until enough says so or none is left, and
// returns how many it sent.
func pace(work []job, perSecond int, enough func() bool) (sent int) {
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for sent < len(work) {
		<-tick.C
		due := min(int(time.Since(began).Seconds()*float64(perSecond)), len(work))
		for ; sent < due; sent++ {
			work[sent].by.answer(work[sent].task, 1)
		}
		if sent%50 == 0 && enough() {
			break
		}
	}
	return sent
}

// manifest reports whether the first report of a run is whole.
func (h *house) manifest(run string) bool {
	return len(programs.Manifests(h.path("reports"), run+"_r1")) == 1
}
