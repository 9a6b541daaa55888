package checker_test

import (
	"slices"
	"strings"

	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

func endPlants() []plant {
	return []plant{
		{name: "closed too late", rule: checker.Barrier, want: `I7: run R1 its barrier was due at 10:00:30.000 and closed at 10:00:31.500`,
			before: func(w *world) { w.runOf("R1").ClosedAt = t0 + 31_500 }},
		{name: "closed too early", rule: checker.Barrier, want: `I7: run R3 its barrier was due at 10:00:25.000 and closed at 10:00:20.000, with task R3-D open`,
			before: func(w *world) { w.runOf("R3").ClosedAt = t0 + 20_000 }},
		{name: "never closed", rule: checker.Barrier, want: `I7: run R3 its barrier was due at 10:00:25.000 and is not closed at 10:01:00.000`,
			before: func(w *world) {
				w.e.Store.TakenAt = t0 + 60_000
				w.runOf("R3").ClosedAt = 0
			}},
		{name: "no offer after the broker came back", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos1.jsonl:6) the broker was back at 10:00:14.000, D/pos1 subscribed at 10:00:14.501 and was not offered the open task until 10:00:24.501`,
			before: func(w *world) {
				w.without(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 })
			}},
		{name: "an empty offer after the broker came back", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos1.jsonl:6) the broker was back at 10:00:14.000, D/pos1 subscribed at 10:00:14.501 and was not offered the open task until 10:00:24.501`,
			before: func(w *world) {
				w.edit(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 }, func(l *history.Line) { l.Payload = "" })
			}},
		{name: "an offer too late after headquarters came back", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos1.jsonl:6) the dispatcher was back at 10:00:14.000, D/pos1 subscribed at 10:00:14.501 and was not offered the open task until 10:00:24.501`,
			before: func(w *world) {
				for i := range w.e.History {
					if l := &w.e.History[i]; l.Act == history.ActFault {
						l.Name = "dispatcher"
					}
				}
				w.edit(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 }, func(l *history.Line) { l.AtMs = t0 + 24_600 })
			}},
		{name: "no report", rule: checker.Settled, want: `I12: run R3 the last fault ended at 10:00:14.000 and at 10:03:20.000 it has no report`,
			before: func(w *world) {
				w.e.Store.Revisions = slices.DeleteFunc(w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R3" })
			}},
		{name: "neither settled nor missing", rule: checker.Settled, want: `I12: run R3 task R3-D it is PENDING at 10:03:20.000 and revision 1 has its store D as "failed": neither settled nor missing`,
			before: func(w *world) {
				o := w.outcome("R3", "D", 1)
				o.Outcome, o.Reason = task.OutcomeFailed, task.ReasonExecutionError
			}},
		{name: "over, and not closed", rule: checker.Settled, want: `I12: run R1 it was to end at 10:00:42.020, the last fault ended at 10:00:14.000, and at 10:03:20.000 it is closed false and has 0 tasks open`,
			before: func(w *world) { w.runOf("R1").EndedAt = 0 }},
		{name: "a make-up window that never ends", rule: checker.Settled, want: `I12: run R3 it was to end at 10:01:00.000, the last fault ended at 10:00:14.000, and at 10:03:20.000 it is closed false and has 1 tasks open`,
			before: func(w *world) { w.runOf("R3").MakeupUntil = t0 + 60_000 }},
		{name: "closed with a task open", rule: checker.Settled, want: `I12: run R3 it was to end at 10:01:00.000, the last fault ended at 10:00:14.000, and at 10:03:20.000 it is closed true and has 1 tasks open`,
			before: func(w *world) { w.runOf("R3").MakeupUntil, w.runOf("R3").EndedAt = t0+60_000, t0+60_000 }},
		{name: "no offer, while another terminal has a fault", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos1.jsonl:6) the broker was back at 10:00:14.000, D/pos1 subscribed at 10:00:14.501 and was not offered the open task until 10:00:24.501`,
			before: func(w *world) {
				w.without(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 })
				w.say(16_000, watch, history.Line{Act: history.ActFault, Name: "terminal cut A/pos1"})
			}},
		{name: "an offer to the other terminal alone", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos2.jsonl:2) the broker was back at 10:00:14.000, D/pos2 subscribed at 10:00:14.600 and was not offered the open task until 10:00:24.600`,
			before: func(w *world) {
				w.say(14_590, second("D"), history.Line{Act: history.ActConnected})
				w.say(14_600, second("D"), history.Line{Act: history.ActSubscribed, Topic: "muster/v1/stores/D/tasks/+"})
			}},
		{name: "a report too late", rule: checker.Settled, want: `I12: run R3 the barrier closed at 10:00:25.020, the last fault ended at 10:00:14.000, and revision 1 came at 10:01:30.000`,
			before: func(w *world) {
				for i := range w.e.Store.Revisions {
					if r := &w.e.Store.Revisions[i]; r.RunID == "R3" {
						r.PublishedAt = t0 + 90_000
					}
				}
			}},
		{name: "the chain is broken", rule: checker.AuditChain, want: `audit: audit verify ended with code 1 and 1 faults: the audit does not hold: entry 5 was changed`,
			after: func(w *world) {
				w.e.Audit = &checker.Audit{Exit: 1, Output: []byte(`{"ok":false,"text":"the audit does not hold: entry 5 was changed","wrong":1}`)}
			}},
		{name: "a verification that did not work", rule: checker.AuditChain, want: `audit: what audit verify printed says nothing (exit code 2): cannot open the database`,
			after: func(w *world) {
				w.e.Audit = &checker.Audit{Exit: 2, Output: []byte("cannot open the database")}
			}},
		{name: "faults that are not owned up to", rule: checker.AuditChain, want: `audit: audit verify ended with code 0 and 2 faults: the audit holds`,
			after: func(w *world) {
				w.e.Audit = &checker.Audit{Output: []byte(`{"ok":true,"text":"the audit holds","wrong":2}`)}
			}},
	}
}
