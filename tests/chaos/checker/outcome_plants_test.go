package checker_test

import (
	"encoding/json"
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// outcomePlants are rows that do not say what became of their tasks.
func outcomePlants() []plant {
	return []plant{
		{name: "a success that is reported as offline", rule: checker.Reports, want: `I5: run R1 task R1-A revision 1 is as of 10:00:30.020 and has its store A as offline, the task was SUCCEEDED at 10:00:02.005`,
			before: func(w *world) {
				o := w.outcome("R1", "A", 1)
				o.Outcome, o.Reason = task.OutcomeOffline, task.ReasonWentOffline
			}},
		{name: "an answer just before the barrier that is not in it", rule: checker.Reports, want: `I5: run R3 task R3-D revision 1 is as of 10:00:25.020 and has its store D as timed_out, the task was SUCCEEDED at 10:00:24.950`,
			before: func(w *world) {
				w.grant(24_500, "R3-D")
				w.answer(24_945, "R3-D", `{"marker":"d"}`)
				w.runOf("R3").EndedAt = t0 + 25_050
			}},
		{name: "an end by headquarters' own word that is not reported", rule: checker.Reports, want: `I5: run R2 task R2-B revision 1 is as of 10:00:11.000 and has its store B as timed_out, the task was CANCELLED at 10:00:09.005`,
			before: func(w *world) {
				o := w.outcome("R2", "B", 1)
				o.Outcome, o.Reason = task.OutcomeTimedOut, task.ReasonOnlineNeverClaimed
				w.runOf("R2").ClosedAt = t0 + 11_000
				find(w.t, w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R2" }).AsOf = t0 + 11_000
			}},
		{name: "a success before its time", rule: checker.Reports, want: `I5: run R1 task R1-C revision 1 is as of 10:00:30.020 and has its store C as succeeded, the task is SUCCEEDED, settled at 10:00:37.005` +
			"\n" + `I5: run R1 task R1-C revision 2 has store C as succeeded, and it was succeeded for good in revision 1`,
			before: func(w *world) {
				o := w.outcome("R1", "C", 1)
				o.Outcome, o.Reason = task.OutcomeSucceeded, task.ReasonNone
			}},
		{name: "a late success in no revision", rule: checker.Reports, want: `I5: run R1 task R1-C a late answer made it SUCCEEDED at 10:00:37.005, and revision 1 has its store C as offline`,
			before: func(w *world) {
				w.runOf("R1").LateCount, w.runOf("R1").Revision = 0, 1
				w.e.Store.Revisions = slices.DeleteFunc(w.e.Store.Revisions, func(r checker.Revision) bool { return r.Revision == 2 })
				w.e.Store.Outcomes = slices.DeleteFunc(w.e.Store.Outcomes, func(o checker.Outcome) bool { return o.Revision == 2 })
			}},
		{name: "a row that changes without a late answer", rule: checker.Reports, want: `I5: run R1 task R1-C revision 2 has another row of store C, and no late answer made it` +
			"\n" + `I5: run R1 task R1-C a late answer made it SUCCEEDED at 10:00:37.005, and revision 2 has its store C as succeeded`,
			after: func(w *world) { w.rerow("R1", "C", 2, `"late":true`, `"late":false`) }},
		{name: "a row that changes twice", rule: checker.Reports, want: `I5: run R1 task R1-C revision 3 has store C as failed, and it was succeeded for good in revision 2` +
			"\n" + `I5: run R1 task R1-C a late answer made it SUCCEEDED at 10:00:37.005, and revision 3 has its store C as failed`,
			before: func(w *world) {
				w.judge(42_003, "R1", 3, protocol.WhyLateResults, map[string]string{"C": "failed execution_error"})
			}},
		{name: "a row that ends before it begins", rule: checker.Reports, want: `I5: run R2 task R2-A revision 1 has store A as granted at 10:00:07.000, started at 10:00:08.500 and finished at 10:00:08.005`,
			after: func(w *world) { w.rerow("R2", "A", 1, w.stamp(7020), w.stamp(8500)) }},
		{name: "a revision without its workbook", rule: checker.Reports, want: `I5: run R3 revision 1 is published without its .xlsx`,
			after: func(w *world) { w.withoutFile("R3", "20260917-1800_probe_R3_r1.xlsx") }},
		{name: "a revision without files", rule: checker.Reports, want: `I5: run R1 revision 1 is published without its .json .csv .html .xlsx _manifest.json`,
			after: func(w *world) {
				find(w.t, w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R1" }).Files = nil
			}},
	}
}

// stamp is a moment as a row has it.
func (w *world) stamp(ms int64) string { return w.text(at(t0 + ms)) }

// withoutFile takes a file out of the folder, its revision and the manifest.
func (w *world) withoutFile(run, name string) {
	of := func(f protocol.ManifestFile) bool { return f.Name == name }
	rev := find(w.t, w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == run })
	rev.Files = slices.DeleteFunc(rev.Files, of)
	delete(w.e.Reports, "2026/09/"+name)
	w.without(func(l history.Line) bool { return l.Act == history.ActLooked && strings.HasSuffix(l.Name, name) })
	base, _, _ := strings.Cut(name, ".")
	var m protocol.Manifest
	if err := json.Unmarshal(w.e.Reports["2026/09/"+base+"_manifest.json"], &m); err != nil {
		w.t.Fatal(err)
	}
	m.Files = slices.DeleteFunc(m.Files, of)
	w.overwrite(base+"_manifest.json", w.text(m))
	w.relook()
}
