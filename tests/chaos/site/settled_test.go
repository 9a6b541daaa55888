package site_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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

// TestTheJudgeGivesTheTimeAfterTheLastFault, and not only after the last barrier:
// else the rule that all is settled would not look at anything.
func TestTheJudgeGivesTheTimeAfterTheLastFault(t *testing.T) {
	t.Parallel()
	const settle = 2 * time.Second
	s := site.New(t, bin, site.Config{Limits: checker.Limits{Settle: settle}}, "A")
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	run := s.Ask(person, protocol.VerbRun, `{"job":"probe","stores":["A"],"barrierSeconds":1}`)
	s.Revision(run.RunID, 1)
	s.Fault(eye, true)
	s.HQ.Kill()
	s.Serve()
	s.Fault(eye, false)
	e := s.Judge(eye)
	var over int64
	for _, l := range e.History {
		if l.Act == history.ActFault && !l.On {
			over = l.AtMs
		}
	}
	if rest := e.Store.TakenAt - over; over == 0 || rest < settle.Milliseconds() {
		t.Errorf("judged %d ms after the last fault", rest)
	}
}

// hears is a test that only notes what is said to it.
type hears struct {
	testing.TB
	said, wrong []string
}

func (h *hears) Logf(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}
func (h *hears) Errorf(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// TestAJudgementOfNothingIsWrong: without an agent no rule about answers has anything,
// and a site that claims them is told so.
func TestAJudgementOfNothingIsWrong(t *testing.T) {
	t.Parallel()
	h := &hears{TB: t}
	s := site.New(h, bin, site.Config{Limits: checker.Limits{Settle: time.Second}, Claims: []string{"invented answers", "I12 reports"}}, "A")
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	run := s.Ask(person, protocol.VerbRun, `{"job":"probe","stores":["A"],"barrierSeconds":1}`)
	s.Revision(run.RunID, 1)
	s.Judge(eye)
	const want = "[there was nothing to judge of: invented answers]"
	if fmt.Sprint(h.wrong) != want {
		t.Errorf("wrong %q, want %s", h.wrong, want)
	}
	if weighed := strings.Join(h.said, "\n"); !strings.Contains(weighed, "I4 replies 1, I4 runs 1") {
		t.Errorf("said %q", h.said)
	}
}
