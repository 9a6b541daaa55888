package backlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/internal/trust"
	"muster/tests/chaos/clocked/enrolled"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// pair is a site with two machines of one identity.
type pair struct {
	*site.Site
	command func(store string) []string // of the agent
	ask     func(request string) (run string)
	folders []string // of a machine, copied with its disk
}

// plain is a pair that says who it is, and is believed.
func plain(t *testing.T) pair {
	s := site.New(t, bin, site.Config{Policy: policy("newest"), Work: site.AwaitGate}, "A")
	person := s.Writer(site.Wang)
	s.Serve()
	return pair{s, s.AgentCommand, func(request string) string {
		return s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":%q,"job":"probe","stores":"all"}`, request)).RunID
	}, []string{"kept"}}
}

// enrolledPair is a pair with the certificate and the signing key of one terminal,
// over TLS.
func enrolledPair(t *testing.T) pair {
	lasting := strings.NewReplacer("run_timeout: 60s", "run_timeout: 300s", "lease: 60s", "lease: 300s").Replace(policy("newest"))
	s := enrolled.New(t, bin, site.Config{Policy: lasting, Work: site.AwaitGate}, "A")
	s.Serve()
	s.Enrol("A")
	return pair{s.Site, s.AgentCommand, func(string) string { return s.Run("") }, []string{"kept", "identity"}}
}

// twin prepares a second machine with the store's identity, with a copy of its disk
// as it is now or set up by hand, and returns what starts it.
func (p pair) twin(t *testing.T, cloned bool) (start func() *programs.Process) {
	t.Helper()
	command := p.command("A")
	text, err := os.ReadFile(command[2])
	if err != nil {
		t.Fatal(err)
	}
	config := p.Write("agents/twin/edge-agent.yaml", string(text))
	if cloned {
		for _, folder := range p.folders {
			copied(t, filepath.Join(filepath.Dir(command[2]), folder), filepath.Join(filepath.Dir(config), folder))
		}
	}
	return func() *programs.Process { return programs.Launch(t, command[0], "-config", config) }
}

// copied copies a folder as its owner's alone.
func copied(t *testing.T, from, to string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	if err == nil {
		err = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				return os.Chmod(path, trust.FolderMode)
			}
			return os.Chmod(path, trust.FileMode)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTwoMachinesWithOneIdentityDoNothingTwice: while the first executes, the
// second pushes it out. It neither does the first one's attempt nor answers for
// it; when the first is back its answer counts, and somebody is told.
func TestTwoMachinesWithOneIdentityDoNothingTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		site   func(t *testing.T) pair
		cloned bool
		pushed int // how often in the end
	}{
		"a cloned disk": {plain, true, 2}, "set up by hand": {plain, false, 2}, "a cloned disk with a certificate": {enrolledPair, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.site(t)
			command := s.command("A")
			first := programs.Launch(t, command[0], command[1:]...)
			first.AwaitOutput("link is up")
			s.Open("A")
			s.ask("r0")
			await(s.Site, "the journal has a past", "A", task.Succeeded, 1)
			if err := os.Remove(s.Gate("A")); err != nil {
				t.Fatal(err)
			}
			start := s.twin(t, c.cloned)
			run := s.ask("r1")
			s.Executed("A", 2)
			second := start()
			second.AwaitOutput("an attempt is of another process with this terminal's identity")
			first.AwaitOutput("another machine connects with the identity of this terminal")
			s.Revision(run, 1)
			if got := tasks(s.Site, "A"); len(got) != 2 || got[1].Status != task.Running || got[1].Attempt != 1 || s.Executions("A") != 2 {
				t.Fatalf("with the second machine: %+v, %d executions", got, s.Executions("A"))
			}
			if !programs.Full() {
				return // what follows takes the half a minute that the first waits
			}
			s.Open("A")
			second.AwaitOutput("another machine connects with the identity of this terminal")
			s.HQ.AwaitOutput("duplicate_terminal")
			if c.pushed > 2 { // a clone's numbers lie up to a minute ahead: the first is heard when it connects after them
				stopped(t, first, second)
			}
			await(s.Site, "the answer of the first is taken", "A", task.Succeeded, 2)
			if got := tasks(s.Site, "A"); got[1].Attempt != 1 || s.Executions("A") != 2 {
				t.Errorf("in the end: %+v, %d executions", got, s.Executions("A"))
			}
			if got := s.Store().Attempts; len(got) != 2 {
				t.Errorf("there are %d grants: %+v", len(got), got)
			}
			for line := range strings.Lines(second.Output()) { // a disk that was cloned before the receipt of r0 may hold its answer too
				if strings.Contains(line, "answer receipted") && strings.Contains(line, tasks(s.Site, "A")[1].TaskID) {
					t.Errorf("the second machine answered for the first: %s", line)
				}
			}
			pushed := strings.Count(first.Output()+second.Output(), "another machine connects")
			if pushed != c.pushed {
				t.Errorf("they pushed each other out %d times, want %d", pushed, c.pushed)
			}
		})
	}
}

// stopped waits until the second machine has pushed the first out once more, stops
// it, and waits for a half of the minute after which the first comes back.
func stopped(t *testing.T, first, second *programs.Process) {
	t.Helper()
	first.AwaitOutput("times=2")
	first.AwaitOutput("retry_in=1m")
	second.Kill()
	at := time.Now()
	programs.Eventually(t, "a half of the minute", func() bool { return time.Since(at) > 30*time.Second })
}
