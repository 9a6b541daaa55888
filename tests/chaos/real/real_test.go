package real_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/programs"
)

func open(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRealHistoryWithKillsPasses runs real programs: headquarters is killed while
// two stores execute, a third store comes after the barrier, one agent is killed
// in the middle of its work, one run is withdrawn, and one store never ends.
func TestRealHistoryWithKillsPasses(t *testing.T) {
	t.Parallel()
	s := newSite(t, "A", "B", "C", "D", "E")
	person, eye := s.writer(wang), s.writer(watch)
	s.serve()
	stop := s.sample(eye)
	s.watch(eye)
	agent := s.agent("A")
	s.agent("B")
	s.agent("E") // its gate stays shut
	order := `{"requestId":"r1","job":"probe","stores":["A","B","C","E"],"barrierSeconds":10}`
	reply := s.ask(person, protocol.VerbRun, order)
	s.executed("A", 1)
	s.executed("B", 1)
	s.executed("E", 1)
	early := s.store()

	stop()
	fault(t, eye, true)
	s.hq.Kill()
	open(t, s.gate("A"))
	open(t, s.gate("B"))
	s.serve()
	fault(t, eye, false)
	stop = s.sample(eye)
	s.watch(eye)
	if again := s.ask(person, protocol.VerbRun, order); again.RunID != reply.RunID {
		t.Errorf("the same request is run %s and run %s", reply.RunID, again.RunID)
	}
	s.revision(reply.RunID, 1)
	s.look(eye)
	open(t, s.gate("C"))
	s.agent("C")
	s.revision(reply.RunID, 2)

	if err := os.Remove(s.gate("A")); err != nil {
		t.Fatal(err)
	}
	cut := s.ask(person, protocol.VerbRun, `{"requestId":"r2","job":"probe","stores":["A"],"attempts":1}`)
	s.executed("A", 2)
	agent.Kill()
	open(t, s.gate("A"))
	s.agent("A")
	s.revision(cut.RunID, 1)
	gone := s.ask(person, protocol.VerbRun, `{"requestId":"r3","job":"probe","stores":["D"]}`)
	s.ask(person, protocol.VerbCancel, fmt.Sprintf(`{"runId":%q}`, gone.RunID))
	s.revision(gone.RunID, 1)
	stop()
	judgeReal(t, s, eye, early)
}

func fault(t *testing.T, w *history.Writer, on bool) {
	t.Helper()
	if err := w.Fault("dispatcher", on); err != nil {
		t.Fatal(err)
	}
}

// judgeReal wants no finding, and then a finding for what is taken away or
// changed in the same evidence.
func judgeReal(t *testing.T, s *site, eye *history.Writer, early checker.Store) {
	t.Helper()
	limits := checker.Limits{MaxRunning: 3, GrantsPerSecond: 5, GrantBurst: 2, Settle: 5 * time.Second, Reoffer: 5 * time.Second}
	programs.Eventually(t, "the time in which all must be settled", func() bool {
		now := s.store()
		return !slices.ContainsFunc(now.Runs, func(r checker.Run) bool { return now.TakenAt < r.ClosedAt+limits.Settle.Milliseconds() })
	})
	e := checker.Evidence{Earlier: &early, Reports: s.look(eye), Store: s.store(), Audit: s.audit(), Limits: limits}
	h, err := history.Read(filepath.Join(s.dir, "history"))
	if err != nil || len(h.Torn) != 0 {
		t.Fatalf("torn %v, %v", h.Torn, err)
	}
	e.History = h.Lines
	acts := map[history.Act]int{}
	for _, l := range h.Lines {
		acts[l.Act]++
	}
	t.Logf("%d lines: %v", len(h.Lines), acts)
	if acts[history.ActExecuted] != 5 || acts[history.ActSampled] == 0 || acts[history.ActLooked] < 8 {
		t.Errorf("acts %v", acts)
	}
	if rules := rulesOf(t, e); rules != "" {
		t.Errorf("rules %s cry", rules)
	}

	without := func(topic string) checker.Evidence {
		less := e
		less.History = slices.DeleteFunc(slices.Clone(e.History), func(l history.Line) bool { return strings.Contains(l.Topic, topic) })
		return less
	}
	blind := e
	blind.Reports = map[string][]byte{}
	twice := e
	twice.History = append([]history.Line{}, e.History...)
	for _, l := range e.History {
		if l.Act == history.ActExecuted {
			twice.History = append(twice.History, l)
		}
	}
	for name, c := range map[string]struct {
		e    checker.Evidence
		want string
	}{"no results sent": {without("/terminals/pos1/result"), "invented"}, "no offers": {without("/stores/E/tasks/0"), "I10"},
		"no report files": {blind, "I5"}, "executed twice": {twice, "I3"}} {
		if got := rulesOf(t, c.e); got != c.want {
			t.Errorf("%s: rules %q cry, want %q", name, got, c.want)
		}
	}
}

// rulesOf names the rules that have findings, once each.
func rulesOf(t *testing.T, e checker.Evidence) string {
	t.Helper()
	found, err := checker.Check(e)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, f := range found {
		t.Log(f)
		if len(rules) == 0 || rules[len(rules)-1] != string(f.Rule) {
			rules = append(rules, string(f.Rule))
		}
	}
	return strings.Join(rules, " ")
}
