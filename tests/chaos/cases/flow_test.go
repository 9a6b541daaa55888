package cases_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// perSecond is how many results a second are to flow.
const perSecond = 500

// TestFiveHundredResultsASecondFlowWhileALargeReportIsWritten: while the four
// files of a report of 100,000 rows are written, results come at 500 a second, and
// none waits for its receipt for more than a second; nor does a technician for an
// answer, nor a terminal that claims for its grant. On a slow machine a technician may
// wait for six times as long as for the same answer when nothing else happens.
func TestFiveHundredResultsASecondFlowWhileALargeReportIsWritten(t *testing.T) {
	// Not parallel: it is about time.
	rows, terminals, idle, each := full(100_000, 10_000), full(500, 100), full(20, 5), full(30, 20)
	bound, rate := time.Second, 0.9*perSecond
	if !programs.Full() { // beside everything else that is tested
		bound, rate = 30*time.Second, 0
	}
	stores := make([]string, rows)
	for i := range stores {
		stores[i] = fmt.Sprintf("S%06d", i)
	}
	h := newHouse(t, none(), stores)
	h.serve()
	list, err := json.Marshal(stores[:terminals+idle])
	if err != nil {
		t.Fatal(err)
	}
	for range each {
		h.run(string(list))
	}
	all, idlers := h.puppets(stores[:terminals], false), h.puppets(stores[terminals:terminals+idle], true)
	h.none("the start of everything", `SELECT count(*) FROM attempts WHERE started_at > 0 HAVING count(*) <> ?`, terminals*each)
	work := h.work(all)
	quiet := len(work) / 4 // the same without the report, to compare
	pace(work[:quiet], func() bool { return false })
	programs.Eventually(t, "every receipt before", func() bool { return sum(all, received) == quiet })
	t.Logf("without the report: a receipt %s", spread(waited(all)))
	large := h.run(`"all"`, `,"barrierSeconds":10`)
	h.none("the barrier of the large run", `SELECT run_id FROM runs WHERE run_id = ? AND barrier_closed_at = 0`, large)
	for _, p := range all {
		p.forget()
	}
	began, used, paced := time.Now(), h.hq.CPU(), make(chan float64, 1)
	var sent int
	go func() {
		sent = pace(work[quiet:], func() bool { return h.manifest(large) })
		paced <- float64(sent) / time.Since(began).Seconds()
	}()
	answers, grants, reached := h.errands(large, idlers, paced)
	programs.Eventually(t, "every receipt", func() bool { return sum(all, received) == sent })
	t.Logf("%d rows; %d results at %.0f a second, all in after %v, the report whole by then: %t; headquarters used %v of the processors and at most %d MiB",
		rows, sent, reached, time.Since(began).Round(time.Millisecond), h.manifest(large), h.hq.CPU()-used, h.hq.Peak())
	if n := sum(all, func(p *puppet) int { return len(p.refusals) }); n > 0 || sent < 200 || reached < rate {
		t.Errorf("%d results were sent at %.0f a second, %d refused", sent, reached, n)
	}
	programs.Eventually(t, "the large report", func() bool { return h.manifest(large) })
	alone := h.answers(large, 10)
	t.Logf("without anything else: an answer %s", spread(alone))
	bounds := map[string]time.Duration{"an answer": max(bound, 6*alone[len(alone)/2])}
	for what, list := range map[string][]time.Duration{"a receipt": waited(all), "an answer": answers, "a grant": grants} {
		t.Logf("%s %s", what, spread(list))
		if last := list[len(list)-1]; last > max(bound, bounds[what]) {
			t.Errorf("somebody waited for %s for %v", what, last)
		}
	}
}

// answers asks for the state of the run one time after the other, and returns how long
// each answer took, shortest first.
func (h *house) answers(run string, times int) (list []time.Duration) {
	h.t.Helper()
	for n := range times {
		began := time.Now()
		h.state(n, run)
		list = append(list, time.Since(began))
	}
	slices.Sort(list)
	return list
}

// state asks for the state of the run, one of 20 technicians at a time.
func (h *house) state(n int, run string) {
	h.t.Helper()
	if reply := h.ask(fmt.Sprintf("asker%d", n%20), protocol.VerbStatus, fmt.Sprintf(`{"runId":%q}`, run)); !reply.OK {
		h.t.Errorf("the answer is %+v", reply)
	}
}

// errands asks as a technician and claims as a terminal, in turn, until the pace is
// over, and returns how long each answer and each grant took, shortest first.
func (h *house) errands(run string, idlers []*puppet, paced <-chan float64) (answers, grants []time.Duration, reached float64) {
	h.t.Helper()
	took := func(list *[]time.Duration, do func()) {
		began := time.Now()
		do()
		*list = append(*list, time.Since(began))
	}
	for n := 0; ; n++ {
		idler := idlers[n%len(idlers)]
		tasks := slices.Sorted(slices.Values(idler.Tasks()))
		task := tasks[n/len(idlers)%len(tasks)]
		took(&answers, func() { h.state(n, run) })
		took(&grants, func() {
			if err := idler.Claim(task); err != nil {
				h.t.Fatal(err)
			}
			programs.Eventually(h.t, "a grant", func() bool { return idler.has(task) })
		})
		select {
		case reached = <-paced:
			slices.Sort(answers)
			slices.Sort(grants)
			return answers, grants, reached
		case <-time.After(100 * time.Millisecond):
		}
	}
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

// spread says how waits lie, shortest first.
func spread(list []time.Duration) string {
	n := len(list)
	return fmt.Sprintf("of %d after p50 %v, p99 %v, max %v", n, list[n/2], list[n*99/100], list[n-1])
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

// pace sends perSecond results a second, until enough says so or none is left, and
// returns how many it sent.
func pace(work []job, enough func() bool) (sent int) {
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for sent < len(work) {
		<-tick.C
		due := min(int(time.Since(began).Seconds()*perSecond), len(work))
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
