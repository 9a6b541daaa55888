package kills_test

import (
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/chaos/strace"
	"muster/tests/programs"
)

// What is done with the calls of a point. Strace counts calls by thread, so only
// "the first" and "all" are sure to mean the same call each time.
const (
	kill   = ":signal=SIGKILL:when=1"      // as the first is entered; it is not made
	hold   = ":delay_exit=60000000:when=1" // the first, once it is done; killed long before the minute ends
	brake  = ":delay_exit=500000:when=1+"  // each, once it is done
	before = ":delay_enter=1000000:when=1+"
)

// point is one moment in the life of a run. Until it, the other program and the
// other threads go on.
type point struct {
	name   string
	victim string // hq, agent
	at     string // from when on the trap is set: request, answer, stop
	call   string // the system call
	path   string // the file of the call, below the site; "": any
	report string // the name of a renamed report file, after the stem of its run
	what   string

	// kills says when the victim is to be killed; nil: when a call is held.
	kills func(s *scene, tr *trap) bool
	// wrote is what the calls before wrote to that path; "": anything.
	wrote string
	// hit looks at what there is after the death, before the next start; nil: no more.
	hit func(s *scene) string

	attempt, executions int // of the end
}

// options is what strace gets.
func (p point) options(s *scene, run string) []string {
	trace := p.call
	if p.wrote != "" {
		trace += ",pwrite64,write"
	}
	options := []string{"-s", "70000", "-e", "signal=none", "-e", "trace=" + trace, "-e", "inject=" + p.call + p.what}
	if p.path != "" {
		options = append(options, "-P", filepath.Join(s.Dir, p.path))
	}
	if p.report != "" {
		options = append(options, "-P", "."+s.stem(run)+p.report+".tmp")
	}
	return options
}

const (
	wal     = "data/muster.db-wal"
	journal = "agents/A/kept/journal.log"
	outbox  = "agents/A/kept/outbox"
	answer  = "A did it"
)

func points() []point {
	return []point{
		{name: "headquarters: answer written, not synced", victim: "hq", at: "answer", call: "fsync", path: wal, what: before,
			kills: committing(answer), attempt: 1, executions: 1},
		{name: "headquarters: answer synced, not acknowledged", victim: "hq", at: "answer", call: "fsync", path: wal, what: brake,
			kills: func(s *scene, tr *trap) bool { return tr.another() && committing(answer)(s, tr) },
			wrote: answer, hit: noReceipt, attempt: 1, executions: 1},
		{name: "headquarters: nothing of a run written", victim: "hq", at: "request", call: "pwrite64", path: wal, what: kill,
			hit: runs(0), attempt: 1, executions: 1},
		{name: "headquarters: half a run written", victim: "hq", at: "request", call: "pwrite64", path: wal,
			what: strings.Replace(kill, "1", "9", 1), hit: runs(0), attempt: 1, executions: 1},
		{name: "headquarters: run written, not synced", victim: "hq", at: "request", call: "fsync", path: wal, what: before,
			kills: committing("request-1"), attempt: 1, executions: 1},
		{name: "headquarters: run synced, not answered", victim: "hq", at: "request", call: "fsync", path: wal, what: brake,
			kills: func(s *scene, tr *trap) bool { return tr.another() && committing("request-1")(s, tr) },
			wrote: "request-1", hit: runs(1), attempt: 1, executions: 1},
		{name: "headquarters: two report files of four", victim: "hq", at: "answer", call: "renameat", report: ".html", what: kill,
			hit: reports(2), attempt: 1, executions: 1},
		{name: "headquarters: all report files, no manifest", victim: "hq", at: "answer", call: "renameat", report: "_manifest.json", what: kill,
			hit: reports(4), attempt: 1, executions: 1},
		{name: "headquarters: manifest, not marked as published", victim: "hq", at: "answer", call: "renameat", report: "_manifest.json", what: hold,
			hit: reports(5), attempt: 1, executions: 1},
		{name: "headquarters: marked as published, no summary", victim: "hq", at: "answer", call: "fsync", path: wal, what: brake,
			kills: func(s *scene, tr *trap) bool { return tr.another() && reports(5)(s) == "" }, hit: published, attempt: 1, executions: 1},
		{name: "headquarters: in the middle of a checkpoint", victim: "hq", at: "stop", call: "pwrite64", path: "data/muster.db",
			what: strings.Replace(kill, "1", "3", 1), attempt: 1, executions: 1},
		{name: "headquarters: checkpoint written, not synced", victim: "hq", at: "stop", call: "fsync", path: "data/muster.db", what: kill,
			attempt: 1, executions: 1},

		{name: "agent: claim journalled, not synced", victim: "agent", at: "request", call: "fsync", path: journal, what: kill,
			wrote: "claimed", attempt: 1, executions: 1},
		{name: "agent: grant journalled, not synced", victim: "agent", at: "request", call: "fsync", path: journal, what: before,
			kills: journalled("granted"), hit: executed(0), attempt: 2, executions: 1},
		{name: "agent: grant synced, not executed", victim: "agent", at: "request", call: "fsync", path: journal, what: brake,
			kills: func(s *scene, tr *trap) bool { return tr.another() && journalled("granted")(s, tr) },
			wrote: "granted", hit: executed(0), attempt: 2, executions: 1},
		{name: "agent: executed, answer not synced", victim: "agent", at: "answer", call: "fsync", what: kill,
			hit: kept(".answer.tmp"), attempt: 2, executions: 2},
		{name: "agent: answer synced, not renamed", victim: "agent", at: "answer", call: "renameat", what: kill,
			hit: kept(".answer.tmp"), attempt: 2, executions: 2},
		{name: "agent: answer renamed, folder not synced", victim: "agent", at: "answer", call: "fsync", path: outbox, what: kill,
			hit: kept(".answer"), attempt: 1, executions: 1},
		{name: "agent: answer kept, its end not synced", victim: "agent", at: "answer", call: "fsync", path: journal, what: kill,
			wrote: "finished", hit: kept(".answer"), attempt: 1, executions: 1},
		{name: "agent: receipt taken, answer not removed", victim: "agent", at: "answer", call: "unlinkat", what: kill,
			hit: kept(".answer"), attempt: 1, executions: 1},
		{name: "agent: answer removed, folder not synced", victim: "agent", at: "answer", call: "unlinkat", what: hold,
			hit: kept(""), attempt: 1, executions: 1},
	}
}

// TestNamedKillPoints kills a program at each point and starts it again: nothing
// is lost, and nothing is done twice.
func TestNamedKillPoints(t *testing.T) {
	t.Parallel()
	strace.Needs(t)
	for i, p := range points() {
		if !programs.Full() && i%4 != 1 {
			continue // a share
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			victim := s.agent
			if p.victim == "hq" {
				victim = s.HQ
			}
			run := p.play(s, victim)
			s.ended(run, p.attempt, p.executions)
		})
	}
}

// play leads the run to the point, where the victim dies, and on from there.
func (p point) play(s *scene, victim *programs.Process) (run string) {
	s.t.Helper()
	asked := func() (protocol.Reply, history.Outcome) { return s.ask() }
	var tr *trap
	if p.at == "request" {
		s.Open("A")
		tr = set(s.t, s, victim, p.options(s, ""))
		asked = s.later()
		p.spring(s, tr)
	}
	reply, outcome := asked()
	if p.at == "answer" {
		s.Executed("A", 1)
		tr = set(s.t, s, victim, p.options(s, reply.RunID))
		s.Open("A")
		p.spring(s, tr)
	}
	if p.at == "stop" {
		s.Open("A")
		s.Revision(reply.RunID, 1)
		tr = set(s.t, s, victim, p.options(s, reply.RunID))
		s.interrupt()
	}
	p.met(s, tr.gone())
	if p.victim == "hq" {
		s.Fault(s.eye, true)
		s.Serve()
		s.Fault(s.eye, false)
	} else {
		s.startAgent()
	}
	if outcome == history.OutcomeUnknown {
		reply, _ = s.ask()
	}
	return reply.RunID
}

// spring kills the victim while a call is held.
func (p point) spring(s *scene, tr *trap) {
	s.t.Helper()
	if strings.HasPrefix(p.what, ":signal") {
		return
	}
	programs.Eventually(s.t, "a held "+p.call, func() bool {
		if p.kills != nil {
			return p.kills(s, tr)
		}
		return tr.another()
	})
	tr.kill()
}

// met wants that the victim died at the point, and nowhere else.
func (p point) met(s *scene, calls []strace.Call) {
	s.t.Helper()
	var last strace.Call
	var wrote strings.Builder
	for _, c := range calls {
		switch {
		case c.Name != p.call || c.OK() && !strings.Contains(c.Return, delayed):
			wrote.Write(c.Data())
		default:
			last = c
		}
	}
	switch {
	case last.Name == "" && p.what != before: // which strace writes down only after it
		s.t.Fatalf("no %s was met: %+v", p.call, calls)
	case p.path != "" && p.what != before && last.Path() != filepath.Join(s.Dir, p.path):
		s.t.Fatalf("the call was %+v", last)
	case !strings.Contains(wrote.String(), p.wrote):
		s.t.Fatalf("%q was not written before: %.2000q", p.wrote, wrote.String())
	}
	if p.hit != nil {
		if wrong := p.hit(s); wrong != "" {
			s.t.Fatalf("the point was missed: %s", wrong)
		}
	}
}
