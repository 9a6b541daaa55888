package cases_test

import (
	"fmt"
	"sync"
	"testing"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// TestOneGrantForTwoHundredClaimsAtOnce: 200 terminals of one store claim its
// one task in the same moment, and one terminal of another store claims its task
// 200 times. Each task runs once, and not a slot more is used than tasks run.
func TestOneGrantForTwoHundredClaimsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, limits{running: 2, rate: 1000, burst: 1000}, []string{"CROWD", "TWICE", "WAITS"})
	h.serve()
	crowd := make([]*puppet, 200)
	var coming sync.WaitGroup
	for i := range crowd {
		coming.Go(func() { crowd[i] = h.puppet("CROWD", fmt.Sprintf("pos%d", i), true) })
	}
	coming.Wait()
	run := h.run(`["CROWD"]`)
	task := h.rows(`SELECT task_id FROM tasks WHERE run_id = ?`, run)[0]
	programs.Eventually(t, "the offer at every terminal", func() bool { return sum(crowd, func(p *puppet) int { return len(p.Tasks()) }) == 200 })
	claimAtOnce(t, task, crowd...)
	programs.Eventually(t, "an answer to every claim", func() bool {
		return sum(crowd, func(p *puppet) int { return p.orders[protocol.OrderGrant] + p.orders[protocol.OrderDeny] }) >= 200
	})
	if n := sum(crowd, func(p *puppet) int { return len(p.granted) }); n != 1 {
		t.Errorf("%d terminals were granted the one task", n)
	}

	again := h.puppet("TWICE", "pos1", true)
	run = h.run(`["TWICE"]`)
	doubled := h.rows(`SELECT task_id FROM tasks WHERE run_id = ?`, run)[0]
	programs.Eventually(t, "the offer", func() bool { return len(again.Tasks()) == 1 })
	same := make([]*puppet, 200)
	for i := range same {
		same[i] = again
	}
	claimAtOnce(t, doubled, same...)
	programs.Eventually(t, "the grant", func() bool { return again.count(protocol.OrderGrant) > 0 })

	// Two run, two may run: the third waits, and comes when one is over.
	third := h.puppet("WAITS", "pos1", false)
	waiting := h.run(`["WAITS"]`)
	h.none("the third claim", `SELECT task_id FROM tasks WHERE run_id = ? AND claimed_at = 0`, waiting)
	for _, id := range []string{task, doubled} {
		if got := h.rows(`SELECT t.status, t.attempt, count(*) FROM tasks t JOIN attempts a USING (task_id) WHERE t.task_id = ?`, id); got[0] != "RUNNING 1 1" {
			t.Errorf("task %s: %v", id, got)
		}
	}
	if n := h.number(`SELECT count(*) FROM tasks WHERE status = 'RUNNING'`); n != 2 || third.count(protocol.OrderGrant) != 0 {
		t.Errorf("%d tasks run under a cap of 2", n)
	}
	for _, p := range append(crowd, again) {
		for id, attempt := range p.granted {
			if attempt != 1 {
				t.Errorf("attempt %d was granted", attempt)
			}
			p.answer(id, attempt)
		}
	}
	programs.Eventually(t, "the third grant", func() bool { return third.count(protocol.OrderGrant) == 1 })
	h.published(2)
	if n := h.number(`SELECT count(*) FROM tasks WHERE status = 'SUCCEEDED'`); n != 2 {
		t.Errorf("%d tasks succeeded", n)
	}
}

// claimAtOnce lets each of the puppets claim in the same moment.
func claimAtOnce(t *testing.T, task string, all ...*puppet) {
	t.Helper()
	start := make(chan struct{})
	var claims sync.WaitGroup
	for _, p := range all {
		claims.Go(func() {
			<-start
			if err := p.Claim(task); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	claims.Wait()
}
