package checker_test

import (
	"slices"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// quietPlants are violations that say nothing wrong by themselves: only who looks at
// two places sees them.
func quietPlants() []plant {
	return []plant{
		{name: "a receipt accepts what was refused", rule: checker.Receipts, want: `I1: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:7) the receipt accepts 7cd31b510e25, which the store refused with INVALID_RESULT`,
			before: func(w *world) { w.attempt("R1-B", 1).Code = protocol.CodeInvalidResult }},
		{name: "a receipt refuses what was taken in", rule: checker.Receipts, want: `I1: run R1 task R1-A attempt 1 (agent-A_pos1.jsonl:7) the receipt refuses 6875d554015a with INVALID_RESULT, which the store took in`,
			before: func(w *world) {
				w.edit(about(history.ActGot, `"receipt"`, `"R1-A"`), replace(`"accepted":true`, `"accepted":false,"code":"INVALID_RESULT"`))
			}},
		{name: "a success that has not ended", rule: checker.Moves, want: `I2: run R2 task R2-A attempt 1 the task is SUCCEEDED and its attempt has not ended`,
			before: func(w *world) { w.attempt("R2-A", 1).EndedAt = 0 }},
		{name: "an event of a task that is not there", rule: checker.Moves, want: `I2: run R3 task R9-D (collector-watch.jsonl:54) it is seen as a task of store D, and the store has it as one of run "" and store ""`,
			before: func(w *world) {
				w.event(20_000, "R3-D", "offered")
				l := &w.e.History[len(w.e.History)-1]
				l.Payload = strings.Replace(l.Payload, "R3-D", "R9-D", 1)
			}},
		{name: "an event of another store's task", rule: checker.Moves, want: `I2: run R3 task R3-D (collector-watch.jsonl:54) it is seen as a task of store A, and the store has it as one of run "R3" and store "D"`,
			before: func(w *world) {
				w.event(20_000, "R3-D", "offered")
				l := &w.e.History[len(w.e.History)-1]
				l.Payload = strings.Replace(l.Payload, `"storeId":"D"`, `"storeId":"A"`, 1)
			}},
		{name: "a stale answer in the place of another", rule: checker.Moves, want: `I2: run R1 task R1-B attempt 1 the store had the answer ba7816bf8f01 of pos1, at 10:00:02.105, and now has 7cd31b510e25 of pos1, at 10:00:02.105`,
			before: earlier(func(w *world, old *checker.Store) {
				old.Attempts = slices.Clone(old.Attempts)
				find(w.t, old.Attempts, func(a checker.Attempt) bool { return a.TaskID == "R1-B" && a.Attempt == 1 }).SHA256 = sum("abc")
			})},
		{name: "two tasks of one target", rule: checker.Targets, want: `I4: run R3 task R3b-D target D has another task of this run`,
			told: func(w *world) {
				again := *w.task("R3-D")
				again.TaskID, again.CreatedAt = "R3b-D", t0+20_000
				w.e.Store.Tasks = append(w.e.Store.Tasks, again)
				w.without(tellings(0, "R3", protocol.RunState))
				w.without(func(l history.Line) bool {
					return l.Act == history.ActSubscribed && strings.HasSuffix(l.Topic, "R3/state")
				})
			}},
	}
}

// quietReportPlants are those in what is reported, promised and sent.
func quietReportPlants() []plant {
	return []plant{
		{name: "a stranger in the place of a target", rule: checker.Reports, want: `I5: run R3 the buckets of revision 1 hold Z, the run's targets are D`,
			before: func(w *world) {
				o := w.outcome("R3", "D", 1)
				w.e.Store.Tasks = append(w.e.Store.Tasks, checker.Task{TaskID: "R3-Z", RunID: "R3", StoreID: "Z", Status: task.Pending, Attempts: 2, CreatedAt: t0 + 10_005})
				o.StoreID = "Z"
				w.e.Store.Targets[len(w.e.Store.Targets)-1].StoreID = "Z" // for the files
			}, told: func(w *world) {
				w.e.Store.Targets[len(w.e.Store.Targets)-1].StoreID = "D"
				w.e.Store.Tasks = slices.DeleteFunc(w.e.Store.Tasks, func(t checker.Task) bool { return t.TaskID == "R3-Z" })
				w.without(tellings(0, "R3", protocol.RunState))
				w.without(func(l history.Line) bool {
					return l.Act == history.ActSubscribed && strings.HasSuffix(l.Topic, "R3/state")
				})
				w.task("R3-D").Status, w.task("R3-D").SettledAt = task.Cancelled, t0+26_000
				w.runOf("R3").EndedAt = t0 + 26_010
			}},
		{name: "a reason of another outcome", rule: checker.Reports, want: `I5: run R3 task R3-D revision 1 has store D as timed_out for "by_user", which is no reason of it`,
			before: func(w *world) { w.outcome("R3", "D", 1).Reason = task.ReasonByUser }},
		{name: "never claimed, and granted", rule: checker.Reports, want: `I5: run R3 task R3-D revision 1 is as of 10:00:25.020 and has store D as online_never_claimed, attempt 1 was granted at 10:00:16.000`,
			before: func(w *world) {
				w.grant(16_000, "R3-D")
				w.without(about(history.ActGot, `"R3-D"`, `"granted"`))
			}},
		{name: "complete, with one missing", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r1.json its verdict is "complete", the store has 2 succeeded 0 failed 0 timed out 1 offline 0 cancelled`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R1_r1.json", `"verdict":"partial"`, `"verdict":"complete"`)
				w.relook()
			}},
		{name: "a summary that is complete with one missing", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:9) its summary of revision 1 says "complete", the store has 2 succeeded 0 failed 0 timed out 1 offline 0 cancelled`,
			told: func(w *world) {
				w.edit(tellings(30_000, "R1", protocol.RunSummary), replace(`"verdict":"partial"`, `"verdict":"complete"`))
			}},
		{name: "a published revision of another moment", rule: checker.Reports, want: `I5: run R1 revision 1 was published at 10:00:30.040 as of 10:00:30.000, and the store has it otherwise now`,
			after: earlier(func(w *world, old *checker.Store) {
				old.Revisions = slices.Clone(old.Revisions)
				find(w.t, old.Revisions, func(r checker.Revision) bool { return r.RunID == "R1" }).AsOf = t0 + 30_000
			})},
		{name: "an outcome at the barrier that changed", rule: checker.Reports, want: `I5: run R1 revision 1 had store C as timed_out "online_never_claimed" and now has it as offline "offline_whole_window"`,
			after: earlier(func(w *world, old *checker.Store) {
				old.Outcomes = slices.Clone(old.Outcomes)
				o := find(w.t, old.Outcomes, func(o checker.Outcome) bool { return o.RunID == "R1" && o.StoreID == "C" && o.Revision == 1 })
				o.Outcome, o.Reason = task.OutcomeTimedOut, task.ReasonOnlineNeverClaimed
			})},
		{name: "a deadline that was moved", rule: checker.Barrier, want: `I7: run R1 (client-wang.jsonl:2) the reply promised its barrier at 10:00:29.000, the store has it at 10:00:30.000`,
			before: func(w *world) {
				w.edit(about(history.ActAnswered, `"runId":"R1"`), replace(`"stores":3`, `"stores":3,"barrierAt":`+w.text(protocol.At(time.UnixMilli(t0+29_000)))))
			}},
		{name: "other content under a known id", rule: checker.Once, want: `I8: run R1 (client-wang.jsonl:6) request r1 of wang was accepted again with other content (client-wang.jsonl:1)`,
			before: func(w *world) {
				n := 0
				for i := range w.e.History {
					if l := &w.e.History[i]; l.Act == history.ActAsked && strings.Contains(l.Payload, `"r1"`) {
						if n++; n == 3 {
							l.Payload = strings.Replace(l.Payload, `"probe"`, `"other"`, 1)
						}
					}
				}
			}},
		{name: "another terminal's answer", rule: checker.Invented, want: `invented: run R2 task R2-A attempt 1 (agent-A_pos1.jsonl:10) the store holds the answer 30df9fb9a2f5 of A/pos1, which A/pos2 sent`,
			before: func(w *world) {
				w.edit(about(history.ActSent, `"R2-A"`, `"marker"`), func(l *history.Line) { l.Participant = second("A") })
			}},
	}
}

// earlier takes an older copy of the database, and changes it.
func earlier(change func(*world, *checker.Store)) func(*world) {
	return func(w *world) {
		old := w.e.Store
		w.e.Earlier = &old
		change(w, &old)
	}
}
