package cases_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/tests/programs"
)

// TestTenThousandResultsWhileHeadquartersIsDownAllArriveOnce: headquarters is
// killed when everything runs, the terminals end their work meanwhile, and come
// back with all of it at once.
func TestTenThousandResultsWhileHeadquartersIsDownAllArriveOnce(t *testing.T) {
	t.Parallel()
	terminals, each := full(500, 100), full(20, 10)
	stores := make([]string, terminals)
	for i := range stores {
		stores[i] = fmt.Sprintf("S%04d", i)
	}
	h := newHouse(t, none(), stores)
	h.serve()
	first := h.puppets(stores, false)
	for range each {
		h.run(`"all"`)
	}
	all := terminals * each
	h.none("the start of everything", `SELECT count(*) FROM attempts WHERE started_at > 0 HAVING count(*) <> ?`, all)
	h.hq.Kill()

	h.serve()
	work := map[string][]string{} // store: what it executed
	for _, p := range first {
		for id := range p.granted {
			work[p.store] = append(work[p.store], id)
		}
	}
	back := h.puppets(stores, true)
	deliver(back, work)
	missing := func() int { return all - sum(back, func(p *puppet) int { return len(p.waited) }) }
	again := time.Now()
	programs.Eventually(t, fmt.Sprintf("a receipt for each of %d results", all), func() bool {
		left := missing()
		if left > 0 && time.Since(again) > 15*time.Second { // as terminals do
			again = time.Now()
			deliver(back, work)
		}
		return left == 0
	})
	if n := sum(back, func(p *puppet) int { return len(p.refusals) }); n != 0 {
		t.Errorf("%d results were refused", n)
	}
	h.published(each)
	for query, want := range map[string]int{
		`SELECT count(*) FROM tasks WHERE status = 'SUCCEEDED' AND attempt = 1`:                                    all,
		`SELECT count(*) FROM attempts`:                                                                            all,
		`SELECT count(*) FROM attempts WHERE answer = 'succeeded' AND result = '{"value":"of ' || task_id || '"}'`: all,
		`SELECT count(*) FROM revisions WHERE complete = 1`:                                                        each,
		`SELECT count(*) FROM outcomes WHERE outcome = 'succeeded'`:                                                all,
		`SELECT count(*) FROM rejected_results`:                                                                    0,
	} {
		if got := h.number(query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	most := h.hq.Peak()
	t.Logf("%d results, headquarters' peak %d MiB", all, most)
	if bound := 150 + all/50; most > bound { // connections and one batch, not all of the results
		t.Errorf("headquarters needed %d MiB, more than %d", most, bound)
	}
}

// puppets connects one terminal a store, some at a time.
func (h *house) puppets(stores []string, mute bool) []*puppet {
	h.t.Helper()
	all := make([]*puppet, len(stores))
	var coming sync.WaitGroup
	room := make(chan struct{}, 32)
	for i, id := range stores {
		coming.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			all[i] = h.puppet(id, "pos1", mute)
		})
	}
	coming.Wait()
	for _, p := range all {
		if p == nil {
			h.t.FailNow()
		}
	}
	return all
}

// deliver sends what has no receipt yet, all terminals at once.
func deliver(all []*puppet, work map[string][]string) {
	var sending sync.WaitGroup
	for _, p := range all {
		sending.Go(func() {
			for _, id := range work[p.store] {
				p.mu.Lock()
				_, done := p.waited[id]
				p.mu.Unlock()
				if !done {
					p.answer(id, 1)
				}
			}
		})
	}
	sending.Wait()
}
