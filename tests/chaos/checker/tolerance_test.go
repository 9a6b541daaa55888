package checker_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// TestWhatIsAllowedIsNotFound: a judge that cries at what faults must look like
// is not listened to.
func TestWhatIsAllowedIsNotFound(t *testing.T) {
	t.Parallel()
	all := allowed()
	for _, more := range []map[string]func(*world){alsoAllowed(), allowedRetries(), allowedReports(), allowedOffers()} {
		maps.Copy(all, more)
	}
	for name, change := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range (plant{before: change}).found(t) {
				t.Error(f)
			}
		})
	}
	for _, p := range allowedEarly() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range p.found(t) {
				t.Error(f)
			}
		})
	}
	for name, change := range allowedTellings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range (plant{told: change}).found(t) {
				t.Error(f)
			}
		})
	}
}

// allowed are worlds in which every promise is kept, though it looks otherwise.
func allowed() map[string]func(*world) {
	return map[string]func(*world){
		"a result with something blacked out": func(w *world) {
			kept := `{"marker":"***"}`
			a := w.attempt("R1-A", 1)
			a.Result, a.Redacted = &kept, 1
		},
		"a receipt that only refuses": func(w *world) {
			no := false
			w.order(3000, "A", protocol.Order{Order: protocol.OrderReceipt, TaskID: "R1-A", Attempt: 1, SHA256: sum("older"), Accepted: &no, Code: protocol.CodeSettled})
		},
		"a receipt for a withdrawn execution": func(w *world) {
			failure, yes := `{"code":"CANCELLED","message":"x"}`, true
			w.say(9500, agentOf("B"), history.Line{Act: history.ActSent, Topic: "muster/v1/stores/B/terminals/pos1/result", Payload: w.text(protocol.Result{
				Meta: w.meta(9500), TaskID: "R2-B", Attempt: 1, Outcome: protocol.AnswerCancelled, Error: json.RawMessage(failure), SHA256: sum(failure)})})
			w.order(9510, "B", protocol.Order{Order: protocol.OrderReceipt, TaskID: "R2-B", Attempt: 1, SHA256: sum(failure), Accepted: &yes})
		},
		"an invalid answer under the hash of what came": func(w *world) {
			a := w.attempt("R1-B", 1)
			a.Answer, a.Code, a.SHA256 = protocol.AnswerSucceeded, protocol.CodeBadHash, sum("what came")
			w.without(about(history.ActGot, `"receipt"`, `"R1-B"`, `"attempt":1`))
		},
		"a barrier that waits for headquarters": func(w *world) {
			w.say(24_500, watch, history.Line{Act: history.ActFault, Name: "dispatcher paused", On: true})
			w.say(28_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher paused"})
			w.runOf("R3").ClosedAt = t0 + 28_900
		},
		"a barrier that waits for a headquarters that dies again": func(w *world) {
			w.say(24_500, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
			w.say(28_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
			w.say(28_400, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
			w.say(29_500, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
			w.runOf("R3").ClosedAt = t0 + 30_200
		},
		"a fault that is not over": func(w *world) {
			w.say(150_000, watch, history.Line{Act: history.ActFault, Name: "network", On: true})
			w.e.Store.Revisions = slices.DeleteFunc(w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R3" })
		},
		"events that were lost": func(w *world) {
			n := 0
			w.without(func(l history.Line) bool {
				if strings.Contains(l.Topic, "/runs/") {
					n++
				}
				return strings.Contains(l.Topic, "/runs/") && n%2 == 0
			})
		},
		"events that come again": func(w *world) {
			for _, l := range slices.Clone(w.e.History) {
				if strings.Contains(l.Topic, "/runs/R1/") {
					w.say(60_000, watch, history.Line{Act: history.ActGot, Topic: l.Topic, Payload: l.Payload})
				}
			}
		},
		"nonsense on the wire": func(w *world) {
			w.say(1000, agentOf("A"), history.Line{Act: history.ActSent, Topic: "muster/v1/stores/A/terminals/pos1/result", Payload: "{\"taskId\""})
		},
		"two moves noted the wrong way round": func(w *world) {
			w.grantQuietly(9015, "R2-B")
			w.task("R2-B").Status = task.Cancelled
		},
		"too few samples": func(w *world) {
			n := 0
			w.without(func(l history.Line) bool {
				n++
				return l.Act == history.ActSampled && n%3 > 0
			})
			w.samples(func(n int, s *history.Sample) { s.Threads += n * 1000 })
		},
	}
}

// allowedReports are about what is reported, granted and withdrawn.
func allowedReports() map[string]func(*world) {
	return map[string]func(*world){
		"an answer that came as the barrier closed": func(w *world) {
			w.grant(24_500, "R3-D")
			w.answer(24_945, "R3-D", `{"marker":"d"}`)
			w.attempt("R3-D", 1).Late = 1
			w.runOf("R3").LateCount = 1
			w.judge(27_000, "R3", 2, protocol.WhyLateResults, map[string]string{"D": "succeeded"})
			w.runOf("R3").EndedAt = t0 + 27_030
		},
		"a late answer that waits for others to share its revision": func(w *world) {
			w.e.Limits.Settle = 20 * time.Second
			w.run(50_000, "R4", "", 60_000, "A", "B")
			w.ask(49_995, protocol.VerbRun, `{"job":"probe"}`, history.OutcomeUnknown, nil)
			w.judge(60_000, "R4", 1, protocol.WhyBarrier, map[string]string{"A": "timed_out online_never_claimed", "B": "timed_out online_never_claimed"})
			w.grant(149_000, "R4-A")
			w.answer(150_000, "R4-A", `{"marker":"a4"}`)
			w.grant(189_000, "R4-B")
			w.answer(190_000, "R4-B", `{"marker":"b4"}`)
			w.attempt("R4-A", 1).Late, w.attempt("R4-B", 1).Late = 1, 1
			w.runOf("R4").LateCount = 2
		},
		"an answer after the barrier that only is recorded": func(w *world) {
			w.runOf("R3").Policy.Late = "record_only"
			w.grant(26_000, "R3-D")
			w.answer(27_000, "R3-D", "")
			a := w.attempt("R3-D", 1)
			a.Late = 1
			w.task("R3-D").SettledAt = a.EndedAt
			w.runOf("R3").EndedAt = t0 + 27_030
		},
		"a number that the files of a replaced database took": func(w *world) {
			w.e.Store.Epoch = 7
			w.runOf("R3").Revision = 2
			rev := find(w.t, w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R3" })
			again := *rev
			again.Revision = 2
			w.e.Store.Revisions = append(w.e.Store.Revisions, again)
			w.passed = "R3"
		},
		"a run whose newest revision is not out yet": func(w *world) { w.runOf("R1").Revision, w.runOf("R1").EndedAt = 3, 0 },
		"a make-up window that has just ended":       func(w *world) { w.runOf("R3").MakeupUntil = t0 + 150_000 },
		"a cancel that finds nothing left": func(w *world) {
			none := 0
			w.ask(9500, protocol.VerbCancel, `{"runId":"R2"}`, history.OutcomeOK, protocol.Reply{OK: true, Status: "accepted", RunID: "R2", Cancelled: &none})
		},
		"a list of stores with one named twice": func(w *world) {
			w.edit(about(history.ActAsked, `"r2"`), replace(`"stores":"all"`, `"stores":["B","A","B"]`))
		},
		"a grant that comes again": func(w *world) {
			w.order(7500, "A", protocol.Order{Order: protocol.OrderGrant, TaskID: "R2-A", Attempt: 1})
		},
	}
}

// allowedOffers are about offers that nobody is owed.
func allowedOffers() map[string]func(*world) {
	return map[string]func(*world){
		"a connection too short for an offer": func(w *world) {
			w.say(14_550, agentOf("D"), history.Line{Act: history.ActDisconnected})
			w.without(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 })
		},
		"an offer that got lost": func(w *world) {
			w.say(14_600, watch, history.Line{Act: history.ActFault, Name: "terminal lost D/pos1"})
			w.without(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 })
		},
		"a subscription over a connection that leads to a headquarters which died": func(w *world) {
			w.without(func(l history.Line) bool {
				return l.Who == "D/pos1" && l.Act != history.ActSubscribed && l.AtMs > t0+11_000
			})
		},
		"a subscription over a connection that was made as headquarters died": func(w *world) {
			w.without(func(l history.Line) bool {
				return l.Who == "D/pos1" && l.Act != history.ActSubscribed && l.AtMs > t0+11_000
			})
			w.say(12_001, agentOf("D"), history.Line{Act: history.ActConnected})
		},
		"a subscription after another death of headquarters": func(w *world) {
			w.say(14_510, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
			w.say(14_550, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
			w.say(15_000, agentOf("D"), history.Line{Act: history.ActSubscribed, Topic: "muster/v1/stores/D/tasks/+"})
			w.without(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 })
		},
		"an offer behind a line that is held": func(w *world) {
			w.say(13_000, watch, history.Line{Act: history.ActFault, Name: "terminal partition D/pos1", On: true})
			w.say(26_000, watch, history.Line{Act: history.ActFault, Name: "terminal partition D/pos1"})
			w.without(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 })
		},
	}
}

// alsoAllowed are uploads and values of that kind.
func alsoAllowed() map[string]func(*world) {
	return map[string]func(*world){
		"values that a spreadsheet would change": func(w *world) {
			w.run(50_000, "R4", "", 60_000, "A", "B")
			w.ask(49_995, protocol.VerbRun, `{"job":"probe"}`, history.OutcomeUnknown, nil)
			w.grant(51_000, "R4-A")
			w.answer(52_000, "R4-A", `{"marker":"=1+1"}`)
			w.grant(53_000, "R4-B")
			w.answer(54_000, "R4-B", `{"marker":1.50}`)
			w.judge(54_010, "R4", 1, protocol.WhyAllSettled, map[string]string{"A": "succeeded", "B": "succeeded"})
			w.runOf("R4").EndedAt = t0 + 54_020
		},
		"columns of every type": typed,
		"uploads one after the other": func(w *world) {
			w.e.Limits.UploadsInFlight, w.e.Limits.UploadBytesPerSecond, w.e.Limits.UploadBurstBytes = 1, 1000, 10_000
			w.upload(1200, "R1-A", 1, 9000)
			w.order(1300, "A", protocol.Order{Order: protocol.OrderSend, TaskID: "R1-A", Attempt: 1}) // the first was lost
			w.upload(2001, "R1-B", 1, 1500)
			w.upload(4800, "R1-B", 2, 2500)
		},
		"a slot given away when nothing was heard": func(w *world) { w.slowUpload() },
		"a slot given away after a sign that may have been an announcement": func(w *world) {
			w.slowUpload()
			w.attempt("R3-D", 1).LastSignAt = t0 + 58_000
			w.order(58_001, "D", protocol.Order{Order: protocol.OrderSend, TaskID: "R3-D", Attempt: 1})
		},
		"an upload of which something got lost": func(w *world) {
			w.slowUpload()
			w.attempt("R3-D", 1).LastSignAt = t0 + 50_100
			w.say(49_995, watch, history.Line{Act: history.ActFault, Name: "terminal lost D/pos1"})
		},
		"an order to send that comes again over a bad line": func(w *world) {
			w.e.Limits.UploadsInFlight = 1
			w.upload(1200, "R1-A", 1, 9000)
			again := w.e.History[len(w.e.History)-1]
			w.upload(4800, "R1-B", 2, 2500)
			w.say(4850, agentOf("A"), again)
		},
		"bytes that were saved up since a start": func(w *world) {
			w.slowUpload()
			w.e.Limits.UploadsInFlight, w.e.Limits.UploadBytesPerSecond, w.e.Limits.UploadBurstBytes = 0, 1000, 10_000
			w.say(38_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
			w.say(39_500, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
		},
		"an upload that its connection ended": func(w *world) {
			w.e.Limits.UploadsInFlight = 1
			w.upload(11_000, "R3-D", 1, 9000)
			w.say(12_100, agentOf("D"), history.Line{Act: history.ActDisconnected})
			w.upload(12_200, "R3-E", 1, 9000)
		},
	}
}

func TestEvidenceThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"root": {func(w *world) { w.e.Root = "a//b" }, `cannot use topic root "a//b": each level must be 1 to 63 of A-Z a-z 0-9 . _ -`},
		"act": {func(w *world) { w.say(0, wang, history.Line{Act: "slept"}) },
			`cannot judge: client-wang.jsonl:13 has the unknown act "slept"`},
		"answer": {func(w *world) { w.say(0, wang, history.Line{Act: history.ActAnswered, Call: 99}) },
			"cannot judge: client-wang.jsonl:13 answers a call that nobody made"},
		"asked": {func(w *world) { w.say(0, wang, history.Line{Act: history.ActAsked, Topic: "elsewhere"}) },
			`cannot judge: client-wang.jsonl:13 asks on "elsewhere", which is no request topic`},
		"targets": {func(w *world) {
			w.e.Store.Targets = append(w.e.Store.Targets, checker.Target{RunID: "R9", StoreID: "A"})
		},
			"cannot judge: the database has targets of run R9 and no such run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := clean(t)
			c.change(w)
			if _, err := checker.Check(w.e); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// allowedTellings are about what is told of runs.
func allowedTellings() map[string]func(*world) {
	return map[string]func(*world){
		"what was told, told again": func(w *world) {
			for _, l := range slices.Clone(w.e.History) {
				if l.Participant == topics && l.Act == history.ActGot && !l.Retained {
					w.say(45_000, topics, l)
				}
			}
		},
		"an end that is said again after a restart": func(w *world) {
			w.say(60_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
			w.say(61_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
			w.say(61_500, topics, history.Line{Act: history.ActSubscribed, Topic: "muster/v1/runs/#"})
			w.state(62_000, "R3", false)
			w.summary(62_000, "R3", 1, false)
			w.without(tellings(lookAt, "R1", protocol.RunState)) // it was over
			w.without(tellings(lookAt, "R1", protocol.RunSummary))
		},
		"an end that died with headquarters before it was told": func(w *world) {
			w.without(tellings(42_000, "R1", protocol.RunState))
			w.without(tellings(42_000, "R1", protocol.RunSummary))
			w.say(42_100, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
			w.say(43_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
		},
		"a revision that came during the subscription, before what was retained": func(w *world) {
			w.say(41_000, topics, history.Line{Act: history.ActSubscribed, Topic: "muster/v1/runs/#"})
			w.summary(42_026, "R1", 1, true)
		},
		"a revision that came to the one reader before another": func(w *world) {
			late := history.Participant{Who: "late", Role: history.RoleCollector}
			w.say(29_000, late, history.Line{Act: history.ActSubscribed, Topic: "muster/v1/runs/#"})
			for _, l := range slices.Clone(w.e.History) {
				if strings.HasSuffix(l.Topic, "R1/summary") && l.Act == history.ActGot && !l.Retained {
					w.say(43_000, late, l)
				}
			}
		},
		"what is younger than the copy": func(w *world) {
			w.e.Store.TakenAt = t0 + lookAt
			w.summary(lookAt+50, "R3", 1, false)
			w.edit(tellings(lookAt+50, "R3", protocol.RunSummary), replace(`"revision":1`, `"revision":2`))
		},
		"a look at what has just become so": func(w *world) {
			for i, l := range w.e.History {
				if l.Participant == topics && l.AtMs == t0+lookAt && strings.Contains(l.Topic, "R1") {
					w.e.History[i].AtMs = t0 + 45_000
				}
			}
			w.without(tellings(42_000, "R1", protocol.RunSummary))
			w.without(tellings(42_000, "R1", protocol.RunState))
			w.summary(45_005, "R1", 1, true)
			w.state(44_000, "R1", true)
			w.edit(tellings(44_000, "R1", protocol.RunState), func(l *history.Line) {
				l.AtMs, l.Payload = t0+45_010, strings.Replace(l.Payload, `"closed"`, `"makeup"`, 1)
			})
		},
		"a topic that cannot be read": func(w *world) {
			w.say(50_000, topics, history.Line{Act: history.ActGot, Topic: "muster/v1/runs/R1/summary", Payload: "{"})
		},
	}
}
