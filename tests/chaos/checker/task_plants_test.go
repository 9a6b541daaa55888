package checker_test

import (
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

func movePlants() []plant {
	return []plant{
		{name: "no state", rule: checker.Moves, want: `I2: run R3 task R3-D the store has it as RUNNING, attempt 0, settled false, which is no state`,
			before: func(w *world) { w.task("R3-D").Status = task.Running }},
		{name: "an attempt without a record", rule: checker.Moves, want: `I2: run R1 task R1-B attempt 1 the store has 2 attempts of it and no record of this one` +
			"\n" + `I2: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:5) its grant was got and the store has no record of it`,
			before: func(w *world) {
				w.e.Store.Attempts = slices.DeleteFunc(w.e.Store.Attempts, func(a checker.Attempt) bool { return a.TaskID == "R1-B" && a.Attempt == 1 })
				w.without(about(history.ActGot, `"receipt"`, `"R1-B"`, `"attempt":1`))
			}},
		{name: "a success that a later attempt undoes", rule: checker.Moves, want: `I2: run R1 task R1-B attempt 1 it succeeded, and attempt 2 was granted all the same`,
			before: func(w *world) {
				a := w.attempt("R1-B", 1)
				a.Answer, a.Code = protocol.AnswerSucceeded, ""
			}},
		{name: "granted after its end", rule: checker.Moves, want: `I2: run R2 task R2-A attempt 1 it was granted at 10:00:07.000, the task was over at 10:00:06.800`,
			before: func(w *world) { w.task("R2-A").SettledAt, w.attempt("R2-A", 1).StartedAt = t0+6800, 0 }},
		{name: "a grant without a record", rule: checker.Moves, want: `I2: run R3 task R3-D attempt 1 (agent-D_pos1.jsonl:8) its grant was got and the store has no record of it`,
			before: func(w *world) {
				w.order(15_000, "D", protocol.Order{Order: protocol.OrderGrant, TaskID: "R3-D", Attempt: 1})
			}},
		{name: "a success without an answer", rule: checker.Moves, want: `I2: run R1 task R1-A attempt 1 the task is SUCCEEDED and its attempt ended as "failed" with code ""`,
			before: func(w *world) {
				w.attempt("R1-A", 1).Answer = protocol.AnswerFailed
			}},
		{name: "an attempt ahead of its task", rule: checker.Moves, want: `I2: run R3 task R3-D attempt 1 the store has a record of it, the task is at attempt 0`,
			before: func(w *world) {
				w.e.Store.Attempts = append(w.e.Store.Attempts, checker.Attempt{TaskID: "R3-D", Attempt: 1, GrantedAt: t0 + 26_000})
			}},
		{name: "an attempt too many", rule: checker.Moves, want: `I2: run R1 task R1-B the store has 2 records of attempts of it, 1 are allowed`,
			before: func(w *world) { w.task("R1-B").Attempts = 1 }},
		{name: "one attempt for two terminals", rule: checker.Moves, want: `I2: run R2 task R2-A attempt 1 (agent-A_pos2.jsonl:1) its grant was got by A/pos2, and by another terminal before`,
			before: func(w *world) {
				w.say(7500, second("A"), history.Line{Act: history.ActGot, Topic: "muster/v1/stores/A/terminals/pos2/orders",
					Payload: w.text(protocol.Order{Meta: w.meta(7500), Order: protocol.OrderGrant, TaskID: "R2-A", Attempt: 1})})
			}},
		{name: "an end before its beginning", rule: checker.Moves, want: `I2: run R1 task R1-B attempt 1 the store has it as started at 10:00:00.900, before its grant at 10:00:01.100` +
			"\n" + `I2: run R1 task R1-B attempt 1 the store has it as ended at 10:00:01.000, before its grant at 10:00:01.100` +
			"\n" + `I2: run R1 task R1-B attempt 1 the store has it as taking -5 ms`,
			before: func(w *world) {
				a := w.attempt("R1-B", 1)
				a.StartedAt, a.EndedAt, a.DurationMs = t0+900, t0+1000, -5
			}},
		{name: "a task that is gone", rule: checker.Moves, want: `I2: run R0 task R0-A an earlier copy of the store has it, this one has not`,
			before: func(w *world) {
				old := w.e.Store
				old.Tasks = append(slices.Clone(old.Tasks), checker.Task{TaskID: "R0-A", RunID: "R0", Status: task.Pending})
				w.e.Earlier = &old
			}},
		{name: "a second end", rule: checker.Moves, want: `I2: run R1 task R1-A attempt 1 (collector-watch.jsonl:54) it is seen as CANCELLED, after it was SUCCEEDED at attempt 1, and no moves lead there` +
			"\n" + `I2: run R1 task R1-A attempt 1 (collector-watch.jsonl:54) it is seen to end as CANCELLED, the store has it as SUCCEEDED`,
			before: func(w *world) {
				t := w.task("R1-A")
				t.Status = task.Cancelled
				w.event(2500, "R1-A", "cancelled")
				t.Status = task.Succeeded
			}},
		{name: "another end than before", rule: checker.Moves, want: `I2: run R1 task R1-A it was over as FAILED at 10:00:01.990, and is now SUCCEEDED at 10:00:02.005`,
			before: func(w *world) {
				old := w.e.Store
				old.Tasks = slices.Clone(old.Tasks)
				w.e.Earlier = &old
				old.Tasks[0].Status, old.Tasks[0].SettledAt = task.Failed, t0+1990
			}},
	}
}

func executionPlants() []plant {
	return []plant{
		{name: "executed twice", rule: checker.Executions, want: `I3: run R1 task R1-A attempt 1 (scripts.markers:6) it was executed twice, first by process 4001 (scripts.markers:1), now by process 5001`,
			before: func(w *world) { w.mark(1500, "R1-A", 1, 5001) }},
		{name: "executed without a grant", rule: checker.Executions, want: `I3: run R3 task R3-D attempt 1 (scripts.markers:6) it was executed and no terminal of store D got a grant for it`,
			before: func(w *world) { w.mark(15_000, "R3-D", 1, 5001) }},
		{name: "executed before its grant", rule: checker.Executions, want: `I3: run R2 task R2-A attempt 1 (scripts.markers:4) it was executed at 10:00:06.900, before the grant at 10:00:07.005 (agent-A_pos1.jsonl:9)`,
			before: func(w *world) {
				w.edit(func(l history.Line) bool { return l.Act == history.ActExecuted && l.Task == "R2-A" }, func(l *history.Line) { l.AtMs = t0 + 6900 })
			}},
		{name: "executed on another store's grant", rule: checker.Executions, want: `I3: run R2 task R2-A attempt 1 (scripts.markers:4) it was executed on a grant of store B (agent-A_pos1.jsonl:9), the task is store A's`,
			before: func(w *world) {
				w.edit(about(history.ActGot, `"grant"`, `"R2-A"`), func(l *history.Line) {
					l.Participant = agentOf("B")
					l.Topic = strings.Replace(l.Topic, "/A/", "/B/", 1)
				})
			}},
		{name: "executed and not known", rule: checker.Executions, want: `I3: task R7-A attempt 1 (scripts.markers:6) it was executed and the store has no such task`,
			before: func(w *world) { w.mark(1500, "R7-A", 1, 5001) }},
		{name: "granted after it was withdrawn", rule: checker.Cancelled, want: `I9: run R2 task R2-B attempt 1 (scripts.markers:6) it was executed: withdrawn at 10:00:09.005, granted at 10:00:09.500`,
			before: func(w *world) {
				t := w.task("R2-B")
				w.grantQuietly(9500, "R2-B")
				t.Status = task.Cancelled
			}},
		{name: "a cancel that got lost", rule: checker.Cancelled, want: `I9: run R2 (client-wang.jsonl:10) its cancels were confirmed for 2 tasks, and 1 are withdrawn`,
			before: func(w *world) {
				w.edit(about(history.ActAnswered, `"cancelled":1`), replace(`"cancelled":1`, `"cancelled":2`))
			}},
		{name: "granted after its cancel was confirmed", rule: checker.Cancelled, want: `I9: run R2 (client-wang.jsonl:10) its cancels were confirmed for 1 tasks, and 0 are withdrawn` +
			"\n" + `I9: run R2 task R2-B attempt 1 (scripts.markers:6) it was executed: its cancel was confirmed at 10:00:09.010 (client-wang.jsonl:10), it was granted at 10:00:09.500`,
			before: func(w *world) {
				w.without(about(history.ActGot, `"R2-B"`, `"cancelled"`))
				*w.task("R2-B") = checker.Task{TaskID: "R2-B", RunID: "R2", StoreID: "B", Status: task.Pending, Attempts: 2, CreatedAt: t0 + 6005}
				w.grant(9500, "R2-B")
				w.answer(9700, "R2-B", `{"marker":"b2"}`)
				w.runOf("R2").ClosedAt = t0 + 9800
				o := w.outcome("R2", "B", 1)
				o.Outcome, o.Reason = task.OutcomeSucceeded, task.ReasonNone
			}},
	}
}

// grantQuietly is a grant without its event.
func (w *world) grantQuietly(at int64, id string) {
	w.grant(at, id)
	w.attempt(id, w.task(id).Attempt).StartedAt = 0
	w.without(about(history.ActGot, `"`+id+`"`, `"granted"`))
}

func targetPlants() []plant {
	return []plant{
		{name: "a target without a task", rule: checker.Targets, want: `I4: run R3 target E has no task: all or none`,
			before: func(w *world) {
				w.e.Store.Targets = append(w.e.Store.Targets, checker.Target{RunID: "R3", StoreID: "E"})
				w.runOf("R3").Targets = 2
				w.edit(about(history.ActAnswered, `"R3"`), replace(`"stores":1`, `"stores":2`))
				w.e.Store.Tasks = append(w.e.Store.Tasks, checker.Task{TaskID: "R3-E", RunID: "R3", StoreID: "E", Status: task.Pending, Attempts: 2, CreatedAt: t0 + 10_005})
				w.e.Store.Outcomes = append(w.e.Store.Outcomes, checker.Outcome{RunID: "R3", StoreID: "E", Revision: 1, Outcome: task.OutcomeOffline, Reason: task.ReasonOfflineWholeWindow})
			}, after: func(w *world) {
				w.e.Store.Tasks = slices.DeleteFunc(w.e.Store.Tasks, func(t checker.Task) bool { return t.TaskID == "R3-E" })
			}},
		{name: "a task for no target", rule: checker.Targets, want: `I4: run R2 task R2-Z store Z is no target of its run`,
			before: func(w *world) {
				w.e.Store.Tasks = append(w.e.Store.Tasks, checker.Task{TaskID: "R2-Z", RunID: "R2", StoreID: "Z", Status: task.Cancelled, Attempts: 2, CreatedAt: t0 + 6005, SettledAt: t0 + 9005})
			}},
		{name: "fewer stores than promised", rule: checker.Targets, want: `I4: run R2 (client-wang.jsonl:8) the reply promised 3 stores, the run has 2`,
			before: func(w *world) {
				w.edit(about(history.ActAnswered, `"R2"`), replace(`"stores":2`, `"stores":3`))
			}},
		{name: "other stores than were asked for", rule: checker.Targets, want: `I4: run R2 (client-wang.jsonl:8) the stores A Z were asked for, the run has A B`,
			before: func(w *world) {
				w.edit(about(history.ActAsked, `"r2"`), replace(`"stores":"all"`, `"stores":["A","Z"]`))
			}},
		{name: "targets that change", rule: checker.Targets, want: `I4: run R2 its targets were A B Q and are now A B`,
			before: func(w *world) {
				old := w.e.Store
				old.Targets = append(slices.Clone(old.Targets), checker.Target{RunID: "R2", StoreID: "Q"})
				w.e.Earlier = &old
			}},
		{name: "another store's offer", rule: checker.Walls, want: `I11: (agent-A_pos1.jsonl:15) the terminal A/pos1 of store A got a message of store B on "muster/v1/stores/B/tasks/R1-B"`,
			before: func(w *world) {
				w.say(1000, agentOf("A"), history.Line{Act: history.ActGot, Topic: "muster/v1/stores/B/tasks/R1-B", Payload: "{}"})
			}},
		{name: "another terminal's orders", rule: checker.Walls, want: `I11: (agent-A_pos1.jsonl:15) the terminal A/pos1 got a message of terminal pos2 on "muster/v1/stores/A/terminals/pos2/orders"`,
			before: func(w *world) {
				w.say(1000, agentOf("A"), history.Line{Act: history.ActGot, Topic: "muster/v1/stores/A/terminals/pos2/orders", Payload: "{}"})
			}},
		{name: "a terminal that reads runs", rule: checker.Walls, want: `I11: (agent-A_pos1.jsonl:15) the terminal A/pos1 got a message on "muster/v1/runs/R1/state", which is no topic of its`,
			before: func(w *world) {
				w.say(1000, agentOf("A"), history.Line{Act: history.ActGot, Topic: "muster/v1/runs/R1/state", Payload: "{}"})
			}},
		{name: "another person's reply", rule: checker.Walls, want: `I11: (client-wang.jsonl:13) wang got a reply to li on "muster/v1/rep/li/last"`,
			before: func(w *world) {
				w.say(1000, wang, history.Line{Act: history.ActGot, Topic: "muster/v1/rep/li/last", Payload: "{}"})
			}},
	}
}
