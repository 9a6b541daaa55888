package backlog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// twin prepares a second machine with a store's identity, with a copy of its disk
// as it is now or set up by hand, and returns what starts it.
func twin(t *testing.T, s *site.Site, store string, cloned bool) (start func() *programs.Process) {
	t.Helper()
	command := s.AgentCommand(store)
	text, err := os.ReadFile(command[2])
	if err != nil {
		t.Fatal(err)
	}
	config := s.Write("agents/twin/edge-agent.yaml", string(text))
	if cloned {
		if err := os.CopyFS(filepath.Join(filepath.Dir(config), "kept"), os.DirFS(s.Kept(store))); err != nil {
			t.Fatal(err)
		}
	}
	return func() *programs.Process { return programs.Launch(t, command[0], "-config", config) }
}

// TestTwoMachinesWithOneIdentityDoNothingTwice: while the first executes, the
// second pushes it out. It neither does the first one's attempt nor answers for
// it; when the first is back its answer counts, and somebody is told.
func TestTwoMachinesWithOneIdentityDoNothingTwice(t *testing.T) {
	t.Parallel()
	for name, cloned := range map[string]bool{"a cloned disk": true, "set up by hand": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, bin, site.Config{Policy: policy("newest"), Work: site.AwaitGate}, "A")
			person := s.Writer(site.Wang)
			s.Serve()
			first := s.Agent("A")
			first.AwaitOutput("link is up")
			s.Open("A")
			s.Ask(person, protocol.VerbRun, `{"requestId":"r0","job":"probe","stores":"all"}`)
			programs.Eventually(t, "the journal has a past", func() bool { return count(tasks(s, "A"), task.Succeeded) == 1 })
			if err := os.Remove(s.Gate("A")); err != nil {
				t.Fatal(err)
			}
			start := twin(t, s, "A", cloned)
			run := s.Ask(person, protocol.VerbRun, `{"requestId":"r1","job":"probe","stores":"all"}`)
			s.Executed("A", 2)
			second := start()
			second.AwaitOutput("an attempt is of another process with this terminal's identity")
			first.AwaitOutput("another machine connects with the identity of this terminal")
			s.Revision(run.RunID, 1)
			if got := tasks(s, "A"); len(got) != 2 || got[1].Status != task.Running || got[1].Attempt != 1 || s.Executions("A") != 2 {
				t.Fatalf("with the second machine: %+v, %d executions", got, s.Executions("A"))
			}
			if !programs.Full() {
				return // what follows takes the half a minute that the first waits
			}
			s.Open("A")
			second.AwaitOutput("another machine connects with the identity of this terminal")
			s.HQ.AwaitOutput("duplicate_terminal")
			programs.Eventually(t, "the answer of the first is taken", func() bool {
				return count(tasks(s, "A"), task.Succeeded) == 2
			})
			if got := tasks(s, "A"); got[1].Attempt != 1 || s.Executions("A") != 2 {
				t.Errorf("in the end: %+v, %d executions", got, s.Executions("A"))
			}
			pushed := strings.Count(first.Output()+second.Output(), "another machine connects")
			if pushed != 2 {
				t.Errorf("they pushed each other out %d times in half a minute, want 2", pushed)
			}
		})
	}
}
