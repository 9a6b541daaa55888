package checker_test

import (
	"encoding/json"
	"strings"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// early tells of a revision when its JSON file is there, as for a run that is large.
func (w *world) early(at int64, run string, revision int, retained bool) {
	w.t.Helper()
	w.e.Limits.LargeAbove = 1
	w.summary(at, run, revision, retained)
	l := &w.e.History[len(w.e.History)-1]
	var s protocol.Summary
	if err := json.Unmarshal([]byte(l.Payload), &s); err != nil {
		w.t.Fatal(err)
	}
	s.Files = s.Files[:1]
	l.Payload = w.text(s)
}

// another makes a third revision of R1.
func another(at int64) func(*world) {
	return func(w *world) {
		w.judge(at, "R1", 3, protocol.WhyLateResults, nil)
		w.runOf("R1").EndedAt = 0
	}
}

// onlyEarly leaves the third revision of R1 as it is when its JSON file is there, and
// tells of it.
func onlyEarly(at int64) func(*world) {
	return func(w *world) {
		w.without(func(l history.Line) bool {
			return tellings(0, "R1", protocol.RunSummary)(l) && (l.Retained || strings.Contains(l.Payload, `"revision":3`))
		})
		w.early(at, "R1", 3, false)
		rev := find(w.t, w.e.Store.Revisions, func(r checker.Revision) bool { return r.RunID == "R1" && r.Revision == 3 })
		rev.PublishedAt, rev.Files = 0, nil
		w.without(func(l history.Line) bool {
			return l.Act == history.ActSubscribed && strings.HasSuffix(l.Topic, "R1/summary")
		})
	}
}

// both does one after the other.
func both(changes ...func(*world)) func(*world) {
	return func(w *world) {
		for _, change := range changes {
			change(w)
		}
	}
}

func earlyPlants() []plant {
	isEarly := func(l history.Line) bool {
		return l.Act == history.ActGot && strings.HasSuffix(l.Topic, "/summary") && !strings.Contains(l.Payload, "_manifest.json")
	}
	return []plant{
		{name: "an early summary of a small run", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:21) its summary of revision 1 names other files than were published`,
			told: func(w *world) { w.early(30_030, "R1", 1, false); w.e.Limits.LargeAbove = 3 }},
		{name: "an early summary that counts otherwise", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:21) its summary of revision 1 counts 3 succeeded 0 failed 0 timed out 1 offline 0 cancelled of 3 targets, the store has 2 succeeded 0 failed 0 timed out 1 offline 0 cancelled of 3`,
			told: func(w *world) {
				w.early(30_030, "R1", 1, false)
				w.edit(isEarly, replace(`"succeeded":2`, `"succeeded":3`))
			}},
		{name: "an early summary with another file", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:21) its summary of revision 1 names other files than were published`,
			told: func(w *world) {
				w.early(30_030, "R1", 1, false)
				w.edit(isEarly, replace(sum(string(w.e.Reports["2026/09/20260917-1800_probe_R1_r1.json"])), sum("x")))
			}},
		{name: "an early summary that stays", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:12) who subscribed to its summary at 10:03:10.000 got revision 2 with its first file, and it was revision 2 for 5s or longer`,
			told: func(w *world) {
				w.without(tellings(42_000, "R1", protocol.RunSummary))
				w.early(lookAt+5, "R1", 2, true)
			}},
		{name: "an early summary after the whole one", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:21) its summary went back to revision 2 with its first file, after it was revision 2`,
			told: func(w *world) { w.early(60_000, "R1", 2, false) }},
		{name: "an early summary of a revision that is not there", rule: checker.Retained, want: `retained: run R3 (collector-topics.jsonl:21) its summary speaks of revision 2, which is not published`,
			told: func(w *world) {
				w.early(100_000, "R3", 1, false)
				w.edit(isEarly, func(l *history.Line) {
					l.Payload = strings.ReplaceAll(strings.Replace(l.Payload, `"revision":1`, `"revision":2`, 1), "_r1.json", "_r2.json")
				})
				w.without(tellings(lookAt, "R3", protocol.RunSummary))
				w.without(func(l history.Line) bool {
					return l.Act == history.ActSubscribed && strings.HasSuffix(l.Topic, "R3/summary")
				})
			}},
		{name: "an early summary of a revision that never is published", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:21) its summary speaks of revision 3, which is not published`,
			before: another(100_000), told: onlyEarly(100_010)},
		{name: "an early summary of a file that is not there", rule: checker.Retained, want: `retained: run R1 (collector-topics.jsonl:21) its summary of revision 3 names other files than were published`,
			before: another(195_000), told: both(onlyEarly(195_010), func(w *world) {
				const name = "2026/09/20260917-1800_probe_R1_r3.json"
				delete(w.e.Reports, name)
				w.without(func(l history.Line) bool { return l.Name == name })
			})},
	}
}

// allowedEarly are early summaries of runs that are large.
func allowedEarly() []plant {
	return []plant{
		{name: "summaries before the files", told: func(w *world) {
			w.early(30_025, "R1", 1, false)
			w.early(42_005, "R1", 2, false)
			w.early(42_006, "R1", 2, false) // a format could not be written at first
		}},
		{name: "a summary whose revision is not published yet", before: another(195_000), told: onlyEarly(195_010)},
		{name: "a summary whose revision waits for headquarters", before: another(100_000), told: both(onlyEarly(100_010), func(w *world) {
			w.say(101_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher", On: true})
			w.say(150_000, watch, history.Line{Act: history.ActFault, Name: "dispatcher"})
		})},
	}
}
