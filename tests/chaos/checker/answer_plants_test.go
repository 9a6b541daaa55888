package checker_test

import (
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

func answerPlants() []plant {
	return []plant{
		{name: "a receipt for another value", rule: checker.Receipts, want: `I1: run R1 task R1-A attempt 1 (agent-A_pos1.jsonl:7) the receipt names d9298a10d1b0, the store holds 6875d554015a`,
			before: func(w *world) {
				w.edit(about(history.ActGot, `"receipt"`, `"R1-A"`), replace(sum(`{"marker":"a"}`), sum("other")))
			}},
		{name: "a receipt for nothing", rule: checker.Receipts, want: `I1: run R1 task R1-A attempt 7 (agent-A_pos1.jsonl:15) the receipt of 2d711642b726 names an answer that the store does not hold`,
			before: func(w *world) {
				yes := true
				w.order(3000, "A", protocol.Order{Order: protocol.OrderReceipt, TaskID: "R1-A", Attempt: 7, SHA256: sum("x"), Accepted: &yes})
			}},
		{name: "a stored value that was changed", rule: checker.Receipts, want: `I1: run R1 task R1-A attempt 1 the stored result hashes to b87d41449a89, its record says 6875d554015a`,
			before: func(w *world) {
				changed := `{"marker":"a" }`
				w.attempt("R1-A", 1).Result = &changed
			}},
		{name: "one request, two runs", rule: checker.Once, want: `I8: run R3 (client-wang.jsonl:14) request r1 of wang made this run and run R1 (client-wang.jsonl:2)`,
			before: func(w *world) {
				payload, reply := w.accepted("R3", "r1", 3)
				reply.Stores = 1
				w.ask(11_000, protocol.VerbRun, payload, history.OutcomeOK, reply)
			}},
		{name: "more runs than requests", rule: checker.Once, want: `I8: wang asked for at most 2 runs and the store has more of them`,
			before: func(w *world) {
				w.without(func(l history.Line) bool {
					return strings.Contains(l.Topic, "/run") && strings.Contains(l.Payload, `"r2"`)
				})
				w.without(func(l history.Line) bool {
					return l.Act == history.ActAnswered && strings.Contains(l.Topic, "/run") && strings.Contains(l.Payload, `"R2"`)
				})
			}},
		{name: "an accepted run that is not there", rule: checker.Once, want: `I8: run R9 (client-wang.jsonl:14) the request was accepted and the store has no such run`,
			before: func(w *world) {
				payload, reply := w.accepted("R9", "r9", 3)
				w.ask(11_000, protocol.VerbRun, payload, history.OutcomeOK, reply)
			}},
		{name: "a reply that the store does not know", rule: checker.Once, want: `I8: run R2 (client-wang.jsonl:8) the reply to request r2 of wang names this run, the store has ""`,
			before: func(w *world) {
				w.e.Store.Requests = slices.DeleteFunc(w.e.Store.Requests, func(r checker.Request) bool { return r.RequestID == "r2" })
			}},
		{name: "a refused answer kept twice", rule: checker.Once, want: `I8: run R1 task R1-A attempt 1 the refused answer 2d711642b726 is kept more than once`,
			before: func(w *world) {
				kept := checker.RejectedResult{TaskID: "R1-A", Attempt: 1, TerminalID: "pos1", SHA256: sum("x")}
				w.e.Store.Rejected = append(w.e.Store.Rejected, kept, kept)
			}},
		{name: "two records of an attempt", rule: checker.Once, want: `I8: run R2 task R2-A attempt 1 the store has more than one record of the attempt`,
			before: func(w *world) {
				w.e.Store.Attempts = append(w.e.Store.Attempts, *w.attempt("R2-A", 1))
				w.e.Limits.GrantBurst++ // it would be a grant too many as well
			}},
		{name: "accepted, then refused", rule: checker.Once, want: `I8: run R1 task R1-A attempt 1 (agent-A_pos1.jsonl:15) the answer 6875d554015a was accepted (agent-A_pos1.jsonl:7) and then refused with STALE`,
			before: func(w *world) {
				no := false
				w.order(3000, "A", protocol.Order{Order: protocol.OrderReceipt, TaskID: "R1-A", Attempt: 1, SHA256: sum(`{"marker":"a"}`), Accepted: &no, Code: protocol.CodeStale})
			}},
		{name: "an answer that nobody sent", rule: checker.Invented, want: `invented: run R1 task R1-B attempt 1 the store holds the answer 766d63f03321, which nobody sent`,
			before: func(w *world) {
				a := w.attempt("R1-B", 1) // a failure, which no report repeats
				a.SHA256 = sum("nobody's")
				w.without(about(history.ActGot, `"receipt"`, `"R1-B"`, `"attempt":1`))
			}},
		{name: "a reported answer that nobody sent", rule: checker.Invented, want: `invented: run R2 task R2-A attempt 1 file 2026/09/20260917-1800_probe_R2_r1.json store A is reported with the answer 766d63f03321, which nobody sent`,
			after: func(w *world) {
				for _, name := range []string{"20260917-1800_probe_R2_r1.json"} {
					w.rewrite(name, sum(`{"marker":"a2"}`), sum("nobody's"))
				}
				w.recell("20260917-1800_probe_R2_r1.xlsx", "各次执行 attempts", "E2", sum("nobody's"))
				w.relook()
				w.outcome("R2", "A", 1).Row = strings.Replace(w.outcome("R2", "A", 1).Row, sum(`{"marker":"a2"}`), sum("nobody's"), 1)
			}},
		{name: "a reported value that was not sent", rule: checker.Invented, want: `invented: run R2 task R2-A attempt 1 file 2026/09/20260917-1800_probe_R2_r1.json (agent-A_pos1.jsonl:10) store A is reported with marker = "a9", sent was "a2"`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1.json", `["a2"]`, `["a9"]`)
				w.rewrite("20260917-1800_probe_R2_r1.csv", ",a2\r\n", ",a9\r\n")
				w.recell("20260917-1800_probe_R2_r1.xlsx", "门店 stores", "E2", "a9")
				w.relook()
				w.outcome("R2", "A", 1).Row = strings.Replace(w.outcome("R2", "A", 1).Row, `["a2"]`, `["a9"]`, 1)
			}},
	}
}

// relook lets every look see the files as they are now.
func (w *world) relook() {
	for i := range w.e.History {
		if l := &w.e.History[i]; l.Act == history.ActLooked {
			l.SHA256 = sum(string(w.e.Reports[l.Name]))
		}
	}
}
