package checker_test

import (
	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

func budgetPlants() []plant {
	return []plant{
		{name: "too many run by the store", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 with its grant at 10:00:01.100 the store had 2 RUNNING, the cap is 1`,
			before: func(w *world) {
				w.e.Limits.MaxRunning = 1
				w.without(about(history.ActGot, `"grant"`, `"R1-B"`, `"attempt":1`)) // its terminal says nothing
				w.without(func(l history.Line) bool { return l.Act == history.ActExecuted && l.Task == "R1-B" && l.Attempt == 1 })
			}},
		{name: "too many were seen to run", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:5) with its grant 2 attempts were seen to run, the cap is 1` +
			"\n" + `I6: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:5) its grant was got at 10:00:01.105, the store has it as of 10:00:02.090`,
			before: func(w *world) {
				w.e.Limits.MaxRunning = 1
				w.attempt("R1-B", 1).GrantedAt, w.attempt("R1-B", 1).StartedAt = t0+2090, 0 // the store says that they came one after the other
				w.attempt("R1-A", 1).EndedAt = t0 + 2003
			}},
		{name: "grants faster than the rate", rule: checker.Budgets, want: `I6: run R2 task R2-A attempt 1 its grant at 10:00:07.000 is more than a burst of 2 and 0.1 a second allow`,
			before: func(w *world) {
				w.e.Limits.GrantsPerSecond, w.e.Limits.GrantBurst = 0.1, 2
			}},
		{name: "a full bucket after a restart", rule: checker.Budgets, want: `I6: run R2 task R2-A attempt 1 its grant at 10:00:07.000 is more than a burst of 2 and 0.1 a second allow`,
			before: func(w *world) {
				w.e.Limits.GrantsPerSecond, w.e.Limits.GrantBurst = 0.1, 2
				w.say(6500, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
				w.say(6600, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
			}},
		{name: "a grant that came before it was made", rule: checker.Budgets, want: `I6: run R2 task R2-A attempt 1 (agent-A_pos1.jsonl:9) its grant was got at 10:00:07.005, the store has it as of 10:00:07.200`,
			before: func(w *world) { w.attempt("R2-A", 1).GrantedAt, w.attempt("R2-A", 1).StartedAt = t0+7200, 0 }},
		{name: "a grant that was made before its claim", rule: checker.Budgets, want: `I6: run R2 task R2-A attempt 1 (agent-A_pos1.jsonl:9) the store has its grant as of 10:00:06.500, the first claim was sent at 10:00:06.990 (agent-A_pos1.jsonl:8)`,
			before: func(w *world) { w.attempt("R2-A", 1).GrantedAt = t0 + 6500 }},
		{name: "threads grow", rule: checker.Flat, want: `flat: (collector-watch.jsonl:53) dispatcher (process 77) grew from 74 to 122 threads in 1m36s`,
			before: func(w *world) {
				w.samples(func(n int, s *history.Sample) { s.Threads += n * 2 })
			}},
		{name: "descriptors grow", rule: checker.Flat, want: `flat: (collector-watch.jsonl:53) dispatcher (process 77) grew from 42 to 66 descriptors in 1m36s`,
			before: func(w *world) {
				w.samples(func(n int, s *history.Sample) { s.Descriptors += n })
			}},
		{name: "memory grows", rule: checker.Flat, want: `flat: (collector-watch.jsonl:53) dispatcher (process 77) grew from 75497472 to 100663296 RSS bytes in 1m36s`,
			before: func(w *world) {
				w.samples(func(n int, s *history.Sample) { s.RSSBytes += int64(n) << 20 })
			}},
	}
}

// ownPlants are about budgets of a run, and of uploads.
func ownPlants() []plant {
	return []plant{
		{name: "too many of a run run", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 with its grant at 10:00:01.100 the store had 2 RUNNING of its run, the cap is 1`,
			before: func(w *world) { w.runOf("R1").Policy.MaxRunning = 1 }},
		{name: "grants of a run faster than its rate", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 2 its grant at 10:00:04.000 is more than a burst of 1 and 0.1 a second allow for its run`,
			before: func(w *world) { w.runOf("R1").Policy.GrantRate, w.runOf("R1").Policy.GrantBurst = 0.1, 1 }},
		{name: "too many uploads", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:16) with this order 2 uploads were in flight, the cap is 1`,
			before: func(w *world) {
				w.e.Limits.UploadsInFlight = 1
				w.upload(1200, "R1-A", 1, 9000)
				w.upload(1300, "R1-B", 1, 9000)
			}},
		{name: "too many uploads, while a terminal is killed", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:16) with this order 2 uploads were in flight, the cap is 1`,
			before: func(w *world) {
				w.e.Limits.UploadsInFlight = 1
				w.upload(1200, "R1-A", 1, 9000)
				w.say(1250, watch, history.Line{Act: history.ActFault, Name: "terminal killed C/pos1"})
				w.upload(1300, "R1-B", 1, 9000)
			}},
		{name: "a slot given away while its bytes come", rule: checker.Budgets, want: `I6: run R4 task R4-A attempt 1 (agent-A_pos1.jsonl:18) with this order 2 uploads were in flight, the cap is 1`,
			before: func(w *world) {
				w.slowUpload()
				w.attempt("R3-D", 1).LastSignAt = t0 + 50_100
			}},
		{name: "a slot given away, though its order came once more", rule: checker.Budgets, want: `I6: run R4 task R4-A attempt 1 (agent-A_pos1.jsonl:18) with this order 2 uploads were in flight, the cap is 1`,
			before: func(w *world) {
				w.slowUpload()
				w.attempt("R3-D", 1).LastSignAt = t0 + 50_100
				again := *find(w.t, w.e.History, about(history.ActGot, `"send"`, `"R3-D"`))
				w.say(55_000, agentOf("D"), again)
			}},
		{name: "a full bucket of bytes after a start", rule: checker.Budgets, want: `I6: run R3 task R3-D attempt 1 (agent-D_pos1.jsonl:11) its 9000 bytes were called for at 10:00:50.000, more than a burst of 10000 and 1000 a second allow`,
			before: func(w *world) {
				w.slowUpload()
				w.e.Limits.UploadsInFlight, w.e.Limits.UploadBytesPerSecond, w.e.Limits.UploadBurstBytes = 0, 1000, 10_000
				w.say(48_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
				w.say(49_500, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
			}},
		{name: "uploads faster than the rate", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:16) its 9000 bytes were called for at 10:00:01.300, more than a burst of 10000 and 1000 a second allow`,
			before: func(w *world) {
				w.e.Limits.UploadBytesPerSecond, w.e.Limits.UploadBurstBytes = 1000, 10_000
				w.upload(1200, "R1-A", 1, 9000)
				w.upload(1300, "R1-B", 1, 9000)
			}},
	}
}

// slowUpload has D send a large answer from 50 s on for as long as it may, and A another
// one from 62 s on.
func (w *world) slowUpload() {
	w.e.Limits.UploadsInFlight = 1
	w.grant(49_000, "R3-D")
	w.upload(50_000, "R3-D", 1, 9000)
	w.run(60_000, "R4", "", 90_000, "A")
	w.ask(59_995, protocol.VerbRun, `{"job":"probe"}`, history.OutcomeUnknown, nil)
	w.grant(61_000, "R4-A")
	w.upload(62_000, "R4-A", 1, 9000)
	w.answer(63_000, "R4-A", `{"marker":"a4"}`)
	w.judge(63_010, "R4", 1, protocol.WhyAllSettled, map[string]string{"A": "succeeded"})
	w.runOf("R4").EndedAt = t0 + 63_040
}

// upload announces a large answer and has its terminal called for it.
func (w *world) upload(at int64, id string, attempt int, size int64) {
	store := w.storeOf(id)
	w.say(at-10, agentOf(store), history.Line{Act: history.ActSent, Topic: "muster/v1/stores/" + store + "/terminals/pos1/ready",
		Payload: w.text(protocol.Ready{Meta: w.meta(at - 10), TaskID: id, Attempt: attempt, Bytes: size, SHA256: sum(id)})})
	w.order(at, store, protocol.Order{Order: protocol.OrderSend, TaskID: id, Attempt: attempt})
}

// samples changes each sample by its number.
func (w *world) samples(change func(n int, s *history.Sample)) {
	n := 0
	for _, l := range w.e.History {
		if l.Act == history.ActSampled {
			change(n, l.Sample)
			n++
		}
	}
}
