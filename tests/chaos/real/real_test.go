package real_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// TestRealHistoryWithKillsPasses runs real programs: headquarters is killed while
// two stores execute, a third store comes after the barrier, one agent is killed
// in the middle of its work, one run is withdrawn, and one store never ends.
func TestRealHistoryWithKillsPasses(t *testing.T) {
	t.Parallel()
	s := site.New(t, bin, site.Config{Work: site.AwaitGate,
		Claims: site.Executed("I2 events", "I5 late", "I5 moved", "I9 cancels", "I9 confirmed", "I10 offers", "I12 ends", "flat samples")}, "A", "B", "C", "D", "E")
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	stop := s.Sample(eye, "dispatcher", s.HQ)
	s.Watch(eye)
	agent := s.Agent("A")
	s.Agent("B")
	s.Agent("E") // its gate stays shut
	order := `{"requestId":"r1","job":"probe","stores":["A","B","C","E"],"barrierSeconds":10}`
	reply := s.Ask(person, protocol.VerbRun, order)
	s.Executed("A", 1)
	s.Executed("B", 1)
	s.Executed("E", 1)
	early := s.Store()

	stop()
	s.Fault(eye, true)
	s.HQ.Kill()
	s.Open("A")
	s.Open("B")
	s.Serve()
	s.Fault(eye, false)
	stop = s.Sample(eye, "dispatcher", s.HQ)
	s.Watch(eye)
	if again := s.Ask(person, protocol.VerbRun, order); again.RunID != reply.RunID {
		t.Errorf("the same request is run %s and run %s", reply.RunID, again.RunID)
	}
	s.Revision(reply.RunID, 1)
	s.Look(eye)
	s.Open("C")
	s.Agent("C")
	s.Revision(reply.RunID, 2)

	if err := os.Remove(s.Gate("A")); err != nil {
		t.Fatal(err)
	}
	cut := s.Ask(person, protocol.VerbRun, `{"requestId":"r2","job":"probe","stores":["A"],"attempts":1}`)
	s.Executed("A", 2)
	agent.Kill()
	s.Open("A")
	s.Agent("A")
	s.Revision(cut.RunID, 1)
	gone := s.Ask(person, protocol.VerbRun, `{"requestId":"r3","job":"probe","stores":["D"]}`)
	s.Ask(person, protocol.VerbCancel, fmt.Sprintf(`{"runId":%q}`, gone.RunID))
	s.Revision(gone.RunID, 1)
	stop()
	s.Offered("E")
	judgeReal(t, s, eye, early)
}

// judgeReal wants no finding, and then a finding for what is taken away or
// changed in the same evidence.
func judgeReal(t *testing.T, s *site.Site, eye *history.Writer, early checker.Store) {
	t.Helper()
	e := s.Judge(eye, early)
	acts := map[history.Act]int{}
	for _, l := range e.History {
		acts[l.Act]++
	}
	t.Logf("%d lines: %v", len(e.History), acts)
	if acts[history.ActExecuted] != 5 || acts[history.ActSampled] == 0 || acts[history.ActLooked] < 8 {
		t.Errorf("acts %v", acts)
	}

	without := func(topic string) checker.Evidence {
		less := e
		less.History = slices.DeleteFunc(slices.Clone(e.History), func(l history.Line) bool { return strings.Contains(l.Topic, topic) })
		return less
	}
	silent := e
	silent.History = slices.DeleteFunc(slices.Clone(e.History), func(l history.Line) bool {
		return l.Who == "topics" && l.Act == history.ActGot && strings.HasSuffix(l.Topic, "/summary")
	})
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
		"no summaries": {silent, "retained"}, "no report files": {blind, "I5"}, "executed twice": {twice, "I3"}} {
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
