package checker_test

import (
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// retried: D is asked again for R3, which it never claimed, by R4, where it fails and
// succeeds late: two revisions of R4, and with each one of R3, which is closed by then.
// What R3 still offers is superseded.
func (w *world) retried() {
	w.run(50_005, "R4", "r4", 70_000, "D")
	w.runOf("R4").ParentRun = "R3"
	w.task("R4-D").Attempts = 1
	w.ask(50_000, protocol.VerbRetry, `{"requestId":"r4","runId":"R3"}`, history.OutcomeOK,
		protocol.Reply{OK: true, Status: "accepted", RunID: "R4", ParentRun: "R3", Stores: 1, BarrierAt: at(t0 + 70_000)})
	old := w.task("R3-D")
	old.Status, old.SettledAt = task.Cancelled, t0+50_005
	w.event(50_005, "R3-D", "cancelled")
	w.runOf("R3").EndedAt = t0 + 50_010
	w.offer(50_020, "R4-D")
	w.grant(52_000, "R4-D")
	w.answer(53_000, "R4-D", `{"marker":"d"}`)
	w.judge(53_010, "R4", 1, protocol.WhyAllSettled, map[string]string{"D": "succeeded"})
	w.runOf("R4").EndedAt = t0 + 53_040
	w.judge(53_050, "R3", 2, protocol.WhyRetryResults, map[string]string{"D": "succeeded"})
	w.madeOf("R3", "D", 2, "R4-D")
}

// madeOf: the row of a revision is of a task of another run.
func (w *world) madeOf(run, store string, revision int, id string) {
	w.outcome(run, store, revision).Row = id
}

// retriedTwice: R3's D fails in R4 and succeeds in R5, a retry of R4; C of R1, which
// succeeded late, is asked by nobody.
func (w *world) retriedTwice() {
	w.retried()
	*w.attempt("R4-D", 1) = checker.Attempt{}
	w.e.Store.Attempts = slices.DeleteFunc(w.e.Store.Attempts, func(a checker.Attempt) bool { return a.TaskID == "" })
	w.without(func(l history.Line) bool {
		return l.AtMs >= t0+51_000 && l.AtMs < t0+53_100 && (strings.Contains(l.Payload, "R4-D") || l.Task == "R4-D")
	})
	*w.task("R4-D") = checker.Task{TaskID: "R4-D", RunID: "R4", StoreID: "D", Status: task.Pending, Attempts: 1, CreatedAt: t0 + 50_005}
	w.grant(52_000, "R4-D")
	w.answer(53_000, "R4-D", "")
	w.task("R4-D").SettledAt = t0 + 53_005
	for _, run := range []string{"R4", "R3"} {
		o := w.outcome(run, "D", w.runOf(run).Revision)
		o.Outcome, o.Reason = task.OutcomeFailed, task.ReasonExecutionError
	}
	w.run(60_005, "R5", "r5", 80_000, "D")
	w.runOf("R5").ParentRun = "R4"
	w.ask(60_000, protocol.VerbRetry, `{"runId":"R4","requestId":"r5","stores":["D"]}`, history.OutcomeOK, protocol.Reply{OK: true, Status: "accepted", RunID: "R5", ParentRun: "R4", Stores: 1})
	w.grant(62_000, "R5-D")
	w.answer(63_000, "R5-D", `{"marker":"dd"}`)
	w.judge(63_010, "R5", 1, protocol.WhyAllSettled, map[string]string{"D": "succeeded"})
	w.runOf("R5").EndedAt = t0 + 63_020
	w.judge(63_050, "R4", 2, protocol.WhyRetryResults, map[string]string{"D": "succeeded"})
	w.madeOf("R4", "D", 2, "R5-D")
	w.judge(63_100, "R3", 3, protocol.WhyRetryResults, map[string]string{"D": "succeeded"})
	w.madeOf("R3", "D", 3, "R5-D")
}

// lateFirst: C of R1 failed late, was asked again and succeeded: its row moves twice.
func (w *world) lateFirst() {
	w.e.Store.Outcomes = slices.DeleteFunc(w.e.Store.Outcomes, func(o checker.Outcome) bool { return o.RunID == "R1" && o.Revision == 2 })
	w.e.Store.Revisions = slices.DeleteFunc(w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R1" && r.Revision == 2 })
	w.e.Store.Attempts = slices.DeleteFunc(w.e.Store.Attempts, func(a checker.Attempt) bool { return a.TaskID == "R1-C" })
	w.without(func(l history.Line) bool {
		return strings.Contains(l.Payload, "R1-C") && l.AtMs > t0+35_500 || l.Task == "R1-C"
	})
	*w.task("R1-C") = checker.Task{TaskID: "R1-C", RunID: "R1", StoreID: "C", Status: task.Pending, Attempts: 1, CreatedAt: t0 + 5}
	w.grant(36_000, "R1-C")
	w.answer(37_000, "R1-C", "")
	w.task("R1-C").SettledAt = t0 + 37_005
	w.attempt("R1-C", 1).Late = 1
	w.judge(42_000, "R1", 2, protocol.WhyLateResults, map[string]string{"C": "failed execution_error"})
	w.run(44_005, "R4", "r4", 64_000, "C")
	w.runOf("R4").ParentRun = "R1"
	w.ask(44_000, protocol.VerbRetry, `{"requestId":"r4","runId":"R1"}`, history.OutcomeOK, protocol.Reply{OK: true, Status: "accepted", RunID: "R4", ParentRun: "R1", Stores: 1})
	w.grant(45_000, "R4-C")
	w.answer(46_000, "R4-C", `{"marker":"cc"}`)
	w.judge(46_010, "R4", 1, protocol.WhyAllSettled, map[string]string{"C": "succeeded"})
	w.runOf("R4").EndedAt = t0 + 46_020
	w.judge(46_050, "R1", 3, protocol.WhyRetryResults, map[string]string{"C": "succeeded"})
	w.madeOf("R1", "C", 3, "R4-C")
}

func allowedRetries() map[string]func(*world) {
	return map[string]func(*world){
		"a retry's answer in its parent's report, which was closed": (*world).retried,
		"a retry of a retry":                        (*world).retriedTwice,
		"a late failure and then a retry's success": (*world).lateFirst,
	}
}

func retryPlants() []plant {
	return []plant{
		{name: "a retry's answer in no revision of its parent", rule: checker.Reports,
			want: `I5: run R3 task R4-D revision 1 of its retry R4 has store D as succeeded, and revision 1 of the run as timed_out`,
			before: func(w *world) {
				w.retried()
				w.runOf("R3").Revision = 1
				w.e.Store.Revisions = slices.DeleteFunc(w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R3" && r.Revision == 2 })
				w.e.Store.Outcomes = slices.DeleteFunc(w.e.Store.Outcomes, func(o checker.Outcome) bool { return o.RunID == "R3" && o.Revision == 2 })
			}},
		{name: "a row that moves back by a retry", rule: checker.Reports,
			want: `I5: run R3 task R4-D revision 3 has store D as failed by a retry, and it was succeeded in revision 2` + "\n" +
				`I5: run R3 task R4-D revision 1 of its retry R4 has store D as succeeded, and revision 3 of the run as failed`,
			before: func(w *world) {
				w.retried()
				w.judge(53_090, "R3", 3, protocol.WhyRetryResults, map[string]string{"D": "failed execution_error"})
				w.madeOf("R3", "D", 3, "R4-D")
			}},
		{name: "a retry's answer that no retry has", rule: checker.Reports,
			want: `I5: run R3 task R3-D revision 2 has store D as failed, and no retry of the run had it so by then` + "\n" +
				`I5: run R3 task R4-D revision 1 of its retry R4 has store D as succeeded, and revision 2 of the run as failed`,
			before: func(w *world) {
				w.retried()
				o := w.outcome("R3", "D", 2)
				o.Outcome, o.Reason, o.Row = task.OutcomeFailed, task.ReasonExecutionError, ""
			}},
		{name: "a retry at a store that its parent had not", rule: checker.Targets, want: `I4: run R4 its target B is none of run R3, of which it is a retry`,
			before: func(w *world) {
				w.retried()
				w.e.Store.Targets = append(w.e.Store.Targets, checker.Target{RunID: "R4", StoreID: "B"})
				w.e.Store.Tasks = append(w.e.Store.Tasks, checker.Task{TaskID: "R4-B", RunID: "R4", StoreID: "B", Status: task.Cancelled, Attempts: 1, CreatedAt: t0 + 50_005, SettledAt: t0 + 50_500})
				w.runOf("R4").Targets = 2
				w.e.Store.Outcomes = append(w.e.Store.Outcomes, checker.Outcome{RunID: "R4", StoreID: "B", Revision: 1, Outcome: task.OutcomeCancelled, Reason: task.ReasonByUser})
				for i, l := range w.e.History {
					w.e.History[i].Payload = strings.Replace(l.Payload, `"stores":1,"barrierAt":"`+w.stamp(70_000)[1:], `"stores":2,"barrierAt":"`+w.stamp(70_000)[1:], 1)
				}
			}},
		{name: "two retries at a store at once", rule: checker.Targets, want: `I4: run R5 task R5-D store D is asked by task R4-D of run R4 at the same time`,
			before: func(w *world) {
				w.retriedTwice()
				w.runOf("R5").CreatedAt, w.task("R5-D").CreatedAt = t0+51_005, t0+51_005
				w.runOf("R5").ParentRun = "R3"
				w.outcome("R4", "D", 2).Outcome = task.OutcomeFailed
				w.runOf("R4").Revision = 1
				w.e.Store.Revisions = slices.DeleteFunc(w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R4" && r.Revision == 2 })
				w.e.Store.Outcomes = slices.DeleteFunc(w.e.Store.Outcomes, func(o checker.Outcome) bool { return o.RunID == "R4" && o.Revision == 2 })
				for i, l := range w.e.History {
					w.e.History[i].Payload = strings.Replace(l.Payload, `{"runId":"R4","requestId":"r5"`, `{"runId":"R3","requestId":"r5"`, 1)
				}
			}},
	}
}
