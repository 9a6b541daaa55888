package app_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
)

// TestARetryCarriesTheParentsReportForward asks twice what a run misses, with a
// restart before the answers come: the run, long closed, gets a revision of each
// retry, and every outcome goes forward alone.
func TestARetryCarriesTheParentsReportForward(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A", "B", "C"}, nil)
		var bMends, cMends atomic.Bool
		moody := func(mends *atomic.Bool) fleet.Options {
			return fleet.Options{Execute: func(o protocol.Offer, attempt int) fleet.Reply {
				if mends.Load() {
					return value("2")(o, attempt)
				}
				return fleet.Reply{Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: "no"}}
			}}
		}
		hq.terminal("A", fleet.Options{Execute: value("1")})
		b := hq.terminal("B", moody(&bMends))
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","barrierSeconds":2,"attempts":1}`)
		first := tech.summary(run.RunID, 1)
		before := hq.file(first, ".json")
		if first.Counts != (protocol.Counts{Succeeded: 1, Failed: 1, Offline: 1}) {
			t.Fatalf("revision 1: %+v", first.Counts)
		}
		retry := func(tech *technician) protocol.Reply {
			t.Helper()
			reply := tech.ask(protocol.VerbRetry, fmt.Sprintf(`{"runId":%q,"barrierSeconds":60}`, run.RunID))
			if !reply.OK || reply.ParentRun != run.RunID {
				t.Fatalf("the retry: %+v", reply)
			}
			return reply
		}
		b.Close()
		tech.conn.Close()
		tech = hq.technician("li")
		again := retry(tech)
		tech.conn.Close()
		hq.restart()
		tech = hq.technician("wang")
		bMends.Store(true)
		hq.terminal("B", moody(&bMends))
		hq.terminal("C", moody(&cMends))
		second := hq.report(tech.summary(run.RunID, 2))
		if second.Counts != (protocol.Counts{Succeeded: 2, Failed: 1}) || second.RevisionWhy != protocol.WhyRetryResults || len(second.Changes) != 2 {
			t.Errorf("revision 2: %s, %+v, %+v", second.RevisionWhy, second.Counts, second.Changes)
		}
		own := hq.report(tech.summary(again.RunID, 1))
		if own.Counts != (protocol.Counts{Succeeded: 1, Failed: 1}) || own.RequestedBy != "li" {
			t.Errorf("the retry's own report: %+v", own.Counts)
		}
		cMends.Store(true)
		retry(tech)
		third := hq.report(tech.summary(run.RunID, 3))
		want := map[string]task.Outcome{"A": task.OutcomeSucceeded, "B": task.OutcomeFailed, "C": task.OutcomeOffline}
		for _, row := range third.Stores {
			if row.Outcome != task.OutcomeSucceeded || row.AtBarrier != want[row.StoreID] || row.Late != (row.StoreID != "A") || row.TaskID == "" {
				t.Errorf("revision 3: %+v", row)
			}
		}
		if third.Verdict != protocol.VerdictComplete {
			t.Errorf("verdict %s", third.Verdict)
		}
		if !bytes.Equal(before, hq.file(first, ".json")) {
			t.Error("revision 1 changed")
		}
		if reply := tech.ask(protocol.VerbRetry, fmt.Sprintf(`{"runId":%q}`, run.RunID)); reply.Code != protocol.CodeNoTargets {
			t.Errorf("nothing is missing: %+v", reply)
		}
	})
}
