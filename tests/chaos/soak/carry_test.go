package main

import (
	"fmt"
	"slices"
	"testing"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

const (
	openRun, overRun, lostRun = "20261130-000000-open", "20261130-000000-over", "20261130-000000-lost"
	root                      = "muster/v1"
)

// agentLine is what the terminal of a store sent or got; at is in microseconds.
func agentLine(at int64, act history.Act, kind protocol.Kind, payload string) history.Line {
	return history.Line{AtMs: at / 1000, MonoUs: at, Act: act, Topic: root + "/stores/A/terminals/pos1/" + string(kind), Payload: payload,
		Participant: history.Participant{Who: "A/pos1", Role: history.RoleAgent, Store: "A", Terminal: "pos1"}}
}

func asked(at, n int64, answer string) []history.Line {
	who := history.Participant{Who: "wang", Role: history.RoleClient}
	lines := []history.Line{{AtMs: at, MonoUs: at, Participant: who, Act: history.ActAsked, Call: n, Topic: root + "/req/wang/run"}}
	if answer != "" {
		lines = append(lines, history.Line{AtMs: at, MonoUs: at, Participant: who, Act: history.ActAnswered, Call: n, Outcome: history.OutcomeOK,
			Payload: fmt.Sprintf(`{"ok":true,"runId":%q}`, answer)})
	}
	return lines
}

// TestARestoreTakesBackWhatHeadquartersSaidAfterTheBackup: and nothing else of
// the runs that go on.
func TestARestoreTakesBackWhatHeadquartersSaidAfterTheBackup(t *testing.T) {
	t.Parallel()
	topics, err := protocol.NewTopics(root)
	if err != nil {
		t.Fatal(err)
	}
	const since = 1000
	order := func(at int64, kind protocol.OrderKind, task string, attempt int) history.Line {
		return agentLine(at, history.ActGot, protocol.KindOrders, fmt.Sprintf(`{"order":%q,"taskId":%q,"attempt":%d}`, kind, task, attempt))
	}
	sent := func(at int64, task string, attempt int) history.Line {
		return agentLine(at, history.ActSent, protocol.KindResult, fmt.Sprintf(`{"taskId":%q,"attempt":%d}`, task, attempt))
	}
	mark := func(at int64, task string, attempt int) history.Line {
		return history.Line{AtMs: at, MonoUs: at, Act: history.ActExecuted, Task: task, Attempt: attempt}
	}
	fault := func(at int64) history.Line { return history.Line{MonoUs: at, Act: history.ActFault, Name: "storm"} }
	look := func(at int64, run string) history.Line {
		return history.Line{MonoUs: at, Act: history.ActLooked, Name: "2026/11/20261130-0000_probe_" + run + "_r1.csv"}
	}
	goes := slices.Concat([]history.Line{
		order(10, protocol.OrderGrant, "T1", 1), mark(20, "T1", 1), sent(30, "T1", 1), order(40, protocol.OrderReceipt, "T1", 1),
		order(50, protocol.OrderGrant, "T2", 1), fault(60), look(70, openRun), mark(1020, "T2", 1), sent(1030, "T2", 1), sent(1040, "T3", 1),
	}, asked(80, 1, openRun), asked(85, 2, ""))
	unknown := asked(1085, 3, openRun)
	stays := slices.Concat([]history.Line{
		order(11, protocol.OrderGrant, "over", 1), mark(21, "over", 1), sent(31, "over", 1), look(71, overRun),
		order(1010, protocol.OrderGrant, "T3", 1), mark(1021, "T3", 1), order(1050, protocol.OrderReceipt, "T2", 1), fault(1060), look(1070, openRun),
		order(1011, protocol.OrderGrant, "lost", 1), sent(1031, "lost", 1),
	}, asked(81, 4, overRun), unknown[1:])
	lines := slices.Concat(goes, unknown[:1], stays)
	history.Order(lines)
	c := &carrier{topics: topics, runs: map[string]bool{openRun: true}, tasks: map[string]bool{"T1": true, "T2": true, "T3": true}, since: since,
		lost: map[execution]bool{}}
	on := c.carry(lines)
	want := slices.Concat(goes, unknown[:1])
	history.Order(want)
	if !slices.EqualFunc(on, want, func(a, b history.Line) bool {
		return a.MonoUs == b.MonoUs && a.Act == b.Act && a.Payload == b.Payload && a.Task == b.Task
	}) {
		t.Errorf("goes on:\n%+v\nwant:\n%+v", on, want)
	}
	left := taken([]history.Line{mark(2000, "T3", 1), mark(2001, "lost", 1), mark(2002, "T3", 77)}, c.lost)
	if len(left) != 1 || left[0].Attempt != 77 {
		t.Errorf("marks that count after the restore: %+v", left)
	}
}

// TestWhatWasOverMayBeSaidAgain: its summary and a receipt, and no grant of it.
func TestWhatWasOverMayBeSaidAgain(t *testing.T) {
	t.Parallel()
	topics, err := protocol.NewTopics(root)
	if err != nil {
		t.Fatal(err)
	}
	got := func(at int64, topic, payload string) history.Line {
		return history.Line{MonoUs: at, Act: history.ActGot, Topic: topic, Payload: payload}
	}
	orders := topics.Terminal("S1", "pos1", protocol.KindOrders)
	c := &carrier{topics: topics, over: map[string]bool{overRun: true}, done: map[string]bool{"over": true}}
	left := c.past([]history.Line{
		got(1, topics.Run(overRun, protocol.RunSummary), "{}"), got(2, topics.Run(overRun, protocol.RunState), "{}"),
		got(3, orders, `{"order":"receipt","taskId":"over"}`),
		got(4, topics.Run(openRun, protocol.RunSummary), "{}"), got(5, orders, `{"order":"grant","taskId":"over","attempt":1}`),
		got(6, orders, `{"order":"receipt","taskId":"open"}`),
	})
	if len(left) != 3 || left[0].MonoUs != 4 || left[1].MonoUs != 5 || left[2].MonoUs != 6 {
		t.Errorf("judged: %+v", left)
	}
}
