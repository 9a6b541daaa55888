package checker_test

import (
	"strings"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// tellings chooses what was told of a run by a topic, from a moment on.
func tellings(from int64, run string, kind protocol.RunKind) func(history.Line) bool {
	return func(l history.Line) bool {
		return l.Act == history.ActGot && l.AtMs >= t0+from && l.Topic == "muster/v1/runs/"+run+"/"+string(kind)
	}
}

func summaryPlants() []plant {
	return []plant{
		{name: "a summary counts otherwise", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:9) its summary of revision 1 counts 3 succeeded 0 failed 0 timed out 1 offline 0 cancelled of 3 targets, the store has 2 succeeded 0 failed 0 timed out 1 offline 0 cancelled of 3`,
			told: func(w *world) {
				w.edit(tellings(30_000, "R1", protocol.RunSummary), replace(`"succeeded":2`, `"succeeded":3`))
			}},
		{name: "a summary of other targets", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:8) its summary of revision 1 counts 0 succeeded 0 failed 1 timed out 0 offline 0 cancelled of 2 targets, the store has 0 succeeded 0 failed 1 timed out 0 offline 0 cancelled of 1`,
			told: func(w *world) {
				w.edit(tellings(0, "R3", protocol.RunSummary), replace(`"targets":1`, `"targets":2`))
			}},
		{name: "a summary that misses nobody", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:8) its summary of revision 1 misses "", the store has "D"`,
			told: func(w *world) {
				w.edit(tellings(0, "R3", protocol.RunSummary), replace(`"missing":["D"]`, `"missing":[]`))
			}},
		{name: "a summary with another file", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:8) its summary of revision 1 names other files than were published`,
			told: func(w *world) {
				w.edit(tellings(0, "R3", protocol.RunSummary), replace(sum(string(w.e.Reports["2026/09/20260917-1800_probe_R3_r1.csv"])), sum("x")))
			}},
		{name: "a summary before its revision", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:8) its summary speaks of revision 2, which is not published` +
			"\n" + `retained: run R3 (collector-topics.jsonl:21) its summary went back to revision 1, after it was revision 2`,
			told: func(w *world) {
				w.edit(tellings(0, "R3", protocol.RunSummary), replace(`"revision":1`, `"revision":2`))
				w.without(tellings(lookAt, "R3", protocol.RunSummary))
				w.summary(lookAt+5, "R3", 1, true)
			}},
		{name: "a summary that is taken back", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:21) its summary went back to revision 1, after it was revision 2`,
			told: func(w *world) { w.summary(60_000, "R1", 1, false) }},
		{name: "an older summary stands again", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:22) its summary went back to revision 1, after it was revision 2`,
			told: func(w *world) {
				w.say(60_000, topics, history.Line{Act: history.ActSubscribed, Topic: "muster/v1/runs/#"})
				w.summary(60_005, "R1", 1, true)
			}},
		{name: "an older summary for another reader", rule: checker.Retained, want: `retained: run R1 (collector-late.jsonl:1) its summary went back to revision 1, after it was revision 2`,
			told: func(w *world) {
				w.summary(60_000, "R1", 1, true)
				w.e.History[len(w.e.History)-1].Source = "collector-late.jsonl:1"
				w.e.History[len(w.e.History)-1].Who = "late"
			}},
	}
}

func statePlants() []plant {
	told := func(w *world, change func(string) string) {
		w.edit(tellings(9000, "R2", protocol.RunState), func(l *history.Line) { l.Payload = change(l.Payload) })
	}
	return []plant{
		{name: "a state of a run that is not there", rule: checker.Retained, want: `retained: run R8 (collector-topics.jsonl:5) its state was told and the store has no such run`,
			told: func(w *world) {
				told(w, func(s string) string { return strings.Replace(s, "R2", "R8", 1) })
				w.edit(tellings(9000, "R2", protocol.RunState), func(l *history.Line) { l.Topic = strings.Replace(l.Topic, "R2", "R8", 1) })
			}},
		{name: "a state that lost a task", rule: checker.Retained, want: `retained: run R2 (collector-topics.jsonl:5) its state speaks of "closed", 2 targets and 1 tasks, the run has 2 and 2`,
			told: func(w *world) {
				told(w, func(s string) string { return strings.Replace(s, `"CANCELLED":1`, `"CANCELLED":0`, 1) })
			}},
		{name: "a state ahead of the database", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:19) its state was closed, revision 1, 0 succeeded, 0 cancelled, and the store has it later as makeup, revision 1, 0 succeeded, 0 cancelled`,
			told: func(w *world) {
				w.edit(tellings(lookAt, "R3", protocol.RunState), replace(`"makeup"`, `"closed"`))
			}},
		{name: "a state that goes back", rule: checker.Retained, want: `retained: run R2 (collector-topics.jsonl:22) its state went back to makeup, revision 1, 1 succeeded, 1 cancelled, after it was closed, revision 1, 1 succeeded, 1 cancelled`,
			told: func(w *world) {
				w.state(9900, "R2", false)
				w.state(9950, "R2", false)
				w.edit(tellings(9950, "R2", protocol.RunState), replace(`"closed"`, `"makeup"`))
			}},
		{name: "a success that is taken back", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:13) its state went back to closed, revision 2, 2 succeeded, 0 cancelled, after it was closed, revision 2, 3 succeeded, 0 cancelled` +
			"\n" + `retained: run R1 (collector-topics.jsonl:11) who subscribed to its state at 10:03:10.000 got closed, revision 2, 2 succeeded, 0 cancelled, and it was closed, revision 2, 3 succeeded, 0 cancelled for 5s or longer`,
			told: func(w *world) {
				w.state(50_000, "R1", false)
				w.edit(tellings(50_000, "R1", protocol.RunState), replace(`"SUCCEEDED":3`, `"RUNNING":1,"SUCCEEDED":2`))
			}},
	}
}

func lookPlants() []plant {
	return []plant{
		{name: "an old summary stands", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:12) who subscribed to its summary at 10:03:10.000 got revision 1, and it was revision 2 for 5s or longer`,
			told: func(w *world) {
				w.without(tellings(42_000, "R1", protocol.RunSummary))
				w.summary(lookAt+5, "R1", 1, true)
			}},
		{name: "a forgotten summary that was to be said again", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:18) who subscribed to its summary at 10:03:10.000 got nothing, and it was revision 1 for 5s or longer`,
			told: func(w *world) {
				w.say(60_000, watch, history.Line{Act: history.ActFault, Name: "broker", On: true})
				w.say(61_000, watch, history.Line{Act: history.ActFault, Name: "broker"})
				w.without(tellings(lookAt, "R3", protocol.RunSummary))
			}},
		{name: "a forgotten end that was to be said again", rule: checker.Retained, want: `retained: run R2 (collector-topics.jsonl:15) who subscribed to its state at 10:03:10.000 got nothing, and it was closed, revision 1, 1 succeeded, 1 cancelled for 5s or longer` +
			"\n" + `retained: run R2 (collector-topics.jsonl:16) who subscribed to its summary at 10:03:10.000 got nothing, and it was revision 1 for 5s or longer`,
			before: func(w *world) { w.runOf("R2").EndedAt = t0 + 20_000 }},
		{name: "an old state stands", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:17) who subscribed to its state at 10:03:10.000 got collecting, revision 0, 0 succeeded, 0 cancelled, and it was makeup, revision 1, 0 succeeded, 0 cancelled for 5s or longer`,
			told: func(w *world) {
				w.without(tellings(20, "R3", protocol.RunState))
				w.state(10_030, "R3", true)
				w.e.History[len(w.e.History)-1].AtMs = t0 + lookAt + 5
			}},
		{name: "no state stands", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:11) who subscribed to its state at 10:03:10.000 got nothing, and it was closed, revision 2, 3 succeeded, 0 cancelled for 5s or longer`,
			told: func(w *world) { w.without(tellings(lookAt, "R1", protocol.RunState)) }},
	}
}
