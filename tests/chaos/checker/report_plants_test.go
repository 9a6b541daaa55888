package checker_test

import (
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

func reportPlants() []plant {
	return []plant{
		{name: "a target in no bucket", rule: checker.Reports, want: `I5: run R2 the buckets of revision 1 hold 1 stores, the run has 2 targets`,
			after: func(w *world) {
				w.e.Store.Outcomes = slices.DeleteFunc(w.e.Store.Outcomes, func(o checker.Outcome) bool { return o.RunID == "R2" && o.StoreID == "B" })
				w.e.Reports = map[string][]byte{}
				w.without(func(l history.Line) bool { return l.Act == history.ActLooked })
				for i := range w.e.Store.Revisions {
					w.e.Store.Revisions[i].Files = nil
				}
			}},
		{name: "JSON counts otherwise", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.json it counts 2 succeeded 0 failed 0 timed out 0 offline 1 cancelled, the store has 1 succeeded 0 failed 0 timed out 0 offline 1 cancelled` +
			"\n" + `I5: run R2 file 20260917-1800_probe_R2_r1.json its buckets sum to 3 of 2 targets`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1.json", `"counts":{"succeeded":1`, `"counts":{"succeeded":2`)
				w.relook()
			}},
		{name: "JSON has another row", rule: checker.Reports, want: `I5: run R3 file 20260917-1800_probe_R3_r1.json its row of store D is not the store's`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R3_r1.json", `"name":"店 D"`, `"name":"店 X"`)
				w.relook()
			}},
		{name: "CSV says otherwise", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.csv it has store B as failed "execution_error", the store has cancelled "by_user"`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1.csv", "cancelled,by_user", "failed,execution_error")
				w.relook()
			}},
		{name: "CSV lacks a store", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.csv it has the stores A, the store has A B`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1.csv", "B,店 B,cancelled,by_user,cancelled\r\n", "")
				w.relook()
			}},
		{name: "HTML says otherwise", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r2.html it counts 2 succeeded 0 failed 0 timed out 0 offline 0 cancelled, the store has 3 succeeded 0 failed 0 timed out 0 offline 0 cancelled` +
			"\n" + `I5: run R1 file 20260917-1800_probe_R1_r2.html its buckets sum to 2 of 3 targets`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R1_r2.html", `succeeded</span></th><td class="n">3`, `succeeded</span></th><td class="n">2`)
				w.relook()
			}},
		{name: "HTML has another row", rule: checker.Reports, want: `I5: run R3 file 20260917-1800_probe_R3_r1.html it has store D as offline "went_offline", the store has timed_out "online_never_claimed"`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R3_r1.html", `timed out</span></td><td>online_never_claimed`, `offline</span></td><td>went_offline`)
				w.relook()
			}},
		{name: "a manifest with another hash", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1_manifest.json it has 20260917-1800_probe_R2_r1.csv with the hash 2d711642b726, the store has 37bfee110bba`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1_manifest.json", sum(string(w.e.Reports["2026/09/20260917-1800_probe_R2_r1.csv"])), sum("x"))
				w.relook()
			}},
		{name: "a manifest that names a stranger", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1_manifest.json it names stranger.csv, which was not published`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1_manifest.json", `"files":[`, `"files":[{"name":"stranger.csv","bytes":1,"sha256":"","mediaType":""},`)
				w.relook()
			}},
		{name: "a barrier's word that changed", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r2.csv it has store C as timed_out at the barrier, revision 1 has offline`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R1_r2.csv", "C,店 C,succeeded,,offline", "C,店 C,succeeded,,timed_out")
				w.relook()
			}},
		{name: "a file of another revision", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r1.json it says that it is revision 2 of run R1`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R1_r1.json", `"revision":1`, `"revision":2`)
				w.relook()
			}},
		{name: "a file that cannot be read", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r1.html it cannot be read: it has not the tables of the counts and of all stores`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R1_r1.html", `id="counts"`, `id="sums"`)
				w.relook()
			}},
	}
}

func workbookPlants() []plant {
	return []plant{
		{name: "a workbook counts otherwise", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.xlsx it counts 2 succeeded 0 failed 0 timed out 0 offline 1 cancelled, the store has 1 succeeded 0 failed 0 timed out 0 offline 1 cancelled` +
			"\n" + `I5: run R2 file 20260917-1800_probe_R2_r1.xlsx its buckets sum to 3 of 2 targets`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R2_r1.xlsx", "汇总 summary", "B3", 2)
				w.relook()
			}},
		{name: "a workbook has another row", rule: checker.Reports, want: `I5: run R3 file 20260917-1800_probe_R3_r1.xlsx it has store D as timed_out "went_offline", the store has timed_out "online_never_claimed"`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R3_r1.xlsx", "门店 stores", "C2", "went_offline")
				w.recell("20260917-1800_probe_R3_r1.xlsx", "未成功 missing", "C2", "went_offline")
				w.relook()
			}},
		{name: "a workbook that contradicts itself", rule: checker.Reports, want: `I5: run R3 file 20260917-1800_probe_R3_r1.xlsx it cannot be read: store D is missing for "online_never_claimed" and for "went_offline"`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R3_r1.xlsx", "未成功 missing", "C2", "went_offline")
				w.relook()
			}},
		{name: "a workbook whose missing lack one", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.xlsx it cannot be read: store B is cancelled, and on the sheet of the missing: false`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R2_r1.xlsx", "未成功 missing", "A2", "X")
				w.relook()
			}},
		{name: "a workbook tells another barrier", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r2.xlsx it has store C as timed_out at the barrier, revision 1 has offline`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R1_r2.xlsx", "门店 stores", "D4", "超时 timed out")
				w.relook()
			}},
	}
}

func bytePlants() []plant {
	return []plant{
		{name: "bytes that are not those published", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.csv its bytes hash to d67e2e944994, the store has 37bfee110bba`,
			after: func(w *world) {
				w.e.Reports["2026/09/20260917-1800_probe_R2_r1.csv"] = []byte("changed")
			}},
		{name: "a file that changed between two looks", rule: checker.Reports, want: `I5: file 2026/09/20260917-1800_probe_R1_r1.html (collector-watch.jsonl:94) its bytes hashed to a35c07067628 (collector-watch.jsonl:66) and now to d9298a10d1b0`,
			after: func(w *world) {
				w.say(100_000, watch, history.Line{Act: history.ActLooked, Name: "2026/09/20260917-1800_probe_R1_r1.html", SHA256: sum("other")})
			}},
		{name: "a file that is gone", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r1.csv it is published with revision 1 and not in the report folder`,
			after: func(w *world) {
				delete(w.e.Reports, "2026/09/20260917-1800_probe_R1_r1.csv")
				w.without(func(l history.Line) bool { return l.Act == history.ActLooked })
			}},
		{name: "a late answer without a revision", rule: checker.Reports, want: `I5: run R1 2 late answers were accepted, revision 2 holds 1 of them and none follows`,
			before: func(w *world) {
				w.runOf("R1").LateCount = 2
			}},
		{name: "a revision left out", rule: checker.Reports, want: `I5: run R1 revision 3 stands where revision 2 belongs`,
			before: func(w *world) {
				w.e.Store.Revisions[len(w.e.Store.Revisions)-1].Revision = 3
				w.outcome("R1", "C", 2).Revision = 3
			}},
	}
}

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
				w.attempt("R1-B", 1).GrantedAt = t0 + 2090 // the store says that they came one after the other
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
			before: func(w *world) { w.attempt("R2-A", 1).GrantedAt = t0 + 7200 }},
		{name: "a grant that was made before its claim", rule: checker.Budgets, want: `I6: run R2 task R2-A attempt 1 (agent-A_pos1.jsonl:9) the store has its grant as of 10:00:06.500, the first claim was sent at 10:00:06.990 (agent-A_pos1.jsonl:8)`,
			before: func(w *world) { w.attempt("R2-A", 1).GrantedAt = t0 + 6500 }},
		{name: "goroutines grow", rule: checker.Flat, want: `flat: (collector-watch.jsonl:53) dispatcher (process 77) grew from 74 to 122 goroutines in 1m36s`,
			before: func(w *world) {
				w.samples(func(n int, s *history.Sample) { s.Goroutines += n * 2 })
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
			before: func(w *world) { w.runOf("R1").Policy = checker.RunPolicy{GrantRate: 0.1, GrantBurst: 1} }},
		{name: "too many uploads", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:16) with this order 2 uploads were in flight, the cap is 1`,
			before: func(w *world) {
				w.e.Limits.UploadsInFlight = 1
				w.upload(1200, "R1-A", 1, 9000)
				w.upload(1300, "R1-B", 1, 9000)
			}},
		{name: "uploads faster than the rate", rule: checker.Budgets, want: `I6: run R1 task R1-B attempt 1 (agent-B_pos1.jsonl:16) its 9000 bytes were called for at 10:00:01.300, more than a burst of 10000 and 1000 a second allow`,
			before: func(w *world) {
				w.e.Limits.UploadBytesPerSecond, w.e.Limits.UploadBurstBytes = 1000, 10_000
				w.upload(1200, "R1-A", 1, 9000)
				w.upload(1300, "R1-B", 1, 9000)
			}},
	}
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
		{name: "no offer after the broker came back", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos1.jsonl:6) the broker was back at 10:00:14.000, store D subscribed at 10:00:14.501 and was not offered the open task until 10:00:24.501`,
			before: func(w *world) {
				w.without(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 })
			}},
		{name: "an empty offer after the broker came back", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos1.jsonl:6) the broker was back at 10:00:14.000, store D subscribed at 10:00:14.501 and was not offered the open task until 10:00:24.501`,
			before: func(w *world) {
				w.edit(func(l history.Line) bool { return strings.HasSuffix(l.Topic, "R3-D") && l.AtMs > t0+14_000 }, func(l *history.Line) { l.Payload = "" })
			}},
		{name: "an offer too late after headquarters came back", rule: checker.Offers, want: `I10: run R3 task R3-D (agent-D_pos1.jsonl:6) the dispatcher was back at 10:00:14.000, store D subscribed at 10:00:14.501 and was not offered the open task until 10:00:24.501`,
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
		{name: "neither settled nor missing", rule: checker.Settled, want: `I12: run R3 task R3-D it is PENDING at 10:03:20.000 and revision 1 has its store D as "cancelled": neither settled nor missing`,
			before: func(w *world) {
				o := w.outcome("R3", "D", 1)
				o.Outcome, o.Reason = task.OutcomeCancelled, task.ReasonByUser
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
