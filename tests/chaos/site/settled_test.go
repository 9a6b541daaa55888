package site_test

import (
	"os"
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
