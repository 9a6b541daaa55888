package checker_test

import (
	"slices"
	"strings"

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
				for i := range w.e.Store.Revisions { // as after a restore
					w.e.Store.Revisions[i].Files = nil
				}
				w.e.Store.Epoch = 1
				for i := range w.e.Store.Runs {
					w.e.Store.Runs[i].Revision++
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
				w.rewrite("20260917-1800_probe_R2_r1.csv", "B,店 B,cancelled,by_user,cancelled,,\r\n", "")
				w.relook()
			}},
		{name: "HTML says otherwise", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r2.html it counts 2 succeeded 0 failed 0 timed out 0 offline 0 cancelled, the store has 3 succeeded 0 failed 0 timed out 0 offline 0 cancelled` +
			"\n" + `I5: run R1 file 20260917-1800_probe_R1_r2.html its buckets sum to 2 of 3 targets`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R1_r2.html", `succeeded</span></th><td class="n"><data value="3">3<`, `succeeded</span></th><td class="n"><data value="2">2<`)
				w.relook()
			}},
		{name: "HTML shows another number than it means", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r2.html it cannot be read: it shows 2 succeeded, and means 3`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R1_r2.html", `succeeded</span></th><td class="n"><data value="3">3<`, `succeeded</span></th><td class="n"><data value="3">2<`)
				w.relook()
			}},
		{name: "HTML has another row", rule: checker.Reports, want: `I5: run R3 file 20260917-1800_probe_R3_r1.html it has store D as offline "went_offline", the store has timed_out "online_never_claimed"`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R3_r1.html", `timed out</span></td><td>online_never_claimed`, `offline</span></td><td>went_offline`)
				w.relook()
			}},
		{name: "a manifest with another hash", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1_manifest.json it has 20260917-1800_probe_R2_r1.csv with the hash 2d711642b726, the store has e0df473cfd64`,
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
				w.recell("20260917-1800_probe_R1_r2.xlsx", "门店 stores", "F4", "超时 timed out")
				w.relook()
			}},
	}
}

// valuePlants are about the job's own columns.
func valuePlants() []plant {
	return []plant{
		{name: "CSV has another value", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.csv it has store A with marker = "a9", the store has "a2"`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1.csv", ",a2\r\n", ",a9\r\n")
				w.relook()
			}},
		{name: "CSV lacks the job's column", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.csv it cannot be read: it has no column job.marker`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1.csv", "job.marker", "marker")
				w.relook()
			}},
		{name: "a workbook has another value", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r2.xlsx it has store C with marker = "d", the store has "c"`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R1_r2.xlsx", "门店 stores", "E4", "d")
				w.relook()
			}},
		{name: "a workbook has a value where none is", rule: checker.Reports, want: `I5: run R3 file 20260917-1800_probe_R3_r1.xlsx it has store D with marker = "0", the store has ""`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R3_r1.xlsx", "门店 stores", "E2", 0)
				w.relook()
			}},
		{name: "a workbook has another column in its place", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r2.xlsx it cannot be read: on sheet 门店 stores column "Other" stands where "Marker" belongs`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R1_r2.xlsx", "门店 stores", "E1", "别的\nOther")
				w.relook()
			}},
	}
}

func bytePlants() []plant {
	return []plant{
		{name: "bytes that are not those published", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.csv its bytes hash to d67e2e944994, the store has e0df473cfd64`,
			after: func(w *world) {
				w.e.Reports["2026/09/20260917-1800_probe_R2_r1.csv"] = []byte("changed")
			}},
		{name: "a file that changed between two looks", rule: checker.Reports, want: `I5: file 2026/09/20260917-1800_probe_R1_r1.html (collector-watch.jsonl:94) its bytes hashed to e455f63eac4b (collector-watch.jsonl:66) and now to d9298a10d1b0`,
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
				w.runOf("R1").Revision = 3
			}},
	}
}

func attemptPlants() []plant {
	return []plant{{name: "JSON lists an attempt that was not", rule: checker.Reports,
		want: `I5: run R3 file 20260917-1800_probe_R3_r1.json its row of store D is not the store's` + "\n" +
			`I5: run R3 task R3-D attempt 7 file 20260917-1800_probe_R3_r1.json store D is reported with an attempt of pos9 that ended as "failed" EXECUTION, the store has ""  of `,
		after: func(w *world) {
			w.rewrite("20260917-1800_probe_R3_r1.json", `"name":"店 D"`, `"name":"店 D","attempts":[{"attempt":7,"terminalId":"pos9","grantedAt":"2026-09-17T18:00:01.000Z","answer":"failed","code":"EXECUTION"}]`)
			w.relook()
		}},
		{name: "CSV lacks an attempt", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r1.csv it has store B with the attempts ["#2 pos1  9f70b80c229b 0"], the store has ["#1 pos1 EXECUTION 7cd31b510e25 0" "#2 pos1  9f70b80c229b 0"]`,
			before: func(w *world) { w.tried = true },
			after: func(w *world) {
				const name = "20260917-1800_probe_R1_r1.csv"
				text := string(w.e.Reports["2026/09/"+name])
				of := strings.Index(text, "\nB,")
				first, second := of+strings.Index(text[of:], `{""attempt"":1`), of+strings.Index(text[of:], `{""attempt"":2`)
				w.overwrite(name, text[:first]+text[second:])
				w.relook()
			}},
		{name: "CSV has attempts that are no list", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.csv it cannot be read: of store B the attempts are "2": json: cannot unmarshal number into Go value of type []protocol.Try`,
			after: func(w *world) {
				w.rewrite("20260917-1800_probe_R2_r1.csv", "by_user,cancelled,,", "by_user,cancelled,2,")
				w.relook()
			}},
		{name: "a workbook has an attempt at another store", rule: checker.Reports, want: `I5: run R1 file 20260917-1800_probe_R1_r1.xlsx it has store A with the attempts ["#1 pos1  6875d554015a 0" "#1 pos1 EXECUTION 7cd31b510e25 0"], the store has ["#1 pos1  6875d554015a 0"]` +
			"\n" + `I5: run R1 file 20260917-1800_probe_R1_r1.xlsx it has store B with the attempts ["#2 pos1  9f70b80c229b 0"], the store has ["#1 pos1 EXECUTION 7cd31b510e25 0" "#2 pos1  9f70b80c229b 0"]`,
			before: func(w *world) { w.tried = true },
			after: func(w *world) {
				w.recell("20260917-1800_probe_R1_r1.xlsx", "各次执行 attempts", "A3", "A")
				w.relook()
			}},
		{name: "a workbook has another lone attempt", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.xlsx it has store A with the attempts ["#2   30df9fb9a2f5 15"], the store has ["#1   30df9fb9a2f5 15"]`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R2_r1.xlsx", "各次执行 attempts", "B2", 2)
				w.relook()
			}},
		{name: "a workbook has an attempt of a stranger", rule: checker.Reports, want: `I5: run R2 file 20260917-1800_probe_R2_r1.xlsx it cannot be read: store "X" is on the sheet of the attempts alone`,
			after: func(w *world) {
				w.recell("20260917-1800_probe_R2_r1.xlsx", "各次执行 attempts", "A2", "X")
				w.relook()
			}}}
}
