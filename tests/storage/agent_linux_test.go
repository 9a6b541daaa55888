package storage_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/disk"
	"muster/tests/programs"
)

// stand is a site with one store, and who asks there.
type stand struct {
	*site.Site
	t      *testing.T
	person *history.Writer // as whom ask asks; nil: nobody
	n      int
}

// newStand returns a stand with the store A, and who looks on, for Judge.
func newStand(t *testing.T, cfg site.Config) (s *stand, eye *history.Writer) {
	s = &stand{Site: site.New(t, bin, cfg, "A"), t: t}
	s.person, eye = s.Writer(site.Wang), s.Writer(site.Watch)
	return s, eye
}

// ask orders a run over the store and returns its id.
func (s *stand) ask(barrier int) string {
	s.t.Helper()
	s.n++
	reply := s.Ask(s.person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":["A"],"attempts":1,"barrierSeconds":%d}`, s.n, barrier))
	if !reply.OK {
		s.t.Fatalf("refused: %+v", reply)
	}
	return reply.RunID
}

// report waits for a revision and returns its JSON.
func (s *stand) report(run string) string {
	s.t.Helper()
	s.Revision(run, 1)
	found, err := filepath.Glob(filepath.Join(s.Reports(), "*", "*", "*_"+run+"_r1.json"))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("%v, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *stand) wantSuccess(what, run string) {
	s.t.Helper()
	if text := s.report(run); !strings.Contains(text, "A did it") {
		s.t.Errorf("%s: %s", what, text)
	}
}

func (s *stand) wantRefusal(what, run, why string) {
	s.t.Helper()
	if text := s.report(run); !strings.Contains(text, "refused_by_terminal") || !strings.Contains(text, why) {
		s.t.Errorf("%s: %s", what, text)
	}
}

// TestAgentOnAFullDiskStartsNothingLosesNothingAndSaysSo: what was executed when
// the disk filled up is answered once; what is asked for while it is full is
// refused with the reason, by an agent that was started on the full disk too; and
// it goes on by itself when there is room.
func TestAgentOnAFullDiskStartsNothingLosesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	s, eye := newStand(t, site.Config{Work: site.AwaitGate, Claims: site.Executed()})
	disk.Small(t, s.Kept("A"), 2)
	s.Serve()
	agent := s.Agent("A")
	run := s.ask(60)
	s.Executed("A", 1)
	disk.Fill(t, s.Kept("A"))
	s.Open("A")
	s.wantSuccess("executed when the disk filled up", run)
	agent.AwaitOutput("the work folder takes no writes")
	s.wantRefusal("asked for on the full disk", s.ask(12), "no space left on device")

	agent.Kill()
	agent = s.Agent("A")
	s.wantRefusal("asked for after a start on the full disk", s.ask(12), "no space left on device")
	disk.Free(t, s.Kept("A"))
	agent.AwaitOutput("the work folder takes writes again")
	s.wantSuccess("asked for when there was room", s.ask(60))
	if n := s.Executions("A"); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
	s.Judge(eye)
}

// TestAgentWithALimitOfTheFileSizeAnswersFromMemory: the limit hits the answer,
// which is larger than it, and not the journal.
func TestAgentWithALimitOfTheFileSizeAnswersFromMemory(t *testing.T) {
	t.Parallel()
	work := `printf '{"marker":"%s did it","text":"' "$STORE"; head -c 60000 /dev/zero | tr '\0' x; echo '"}'; exit`
	s, eye := newStand(t, site.Config{Work: work, Claims: site.Executed()})
	s.Serve()
	command := s.AgentCommand("A")
	agent := programs.Launch(t, "sh", append([]string{"-c", `ulimit -f 64; exec "$0" "$@"`}, command...)...) // blocks of 512 bytes
	s.wantSuccess("an answer over the limit", s.ask(60))
	agent.AwaitOutput("the work folder takes no writes")
	s.wantRefusal("asked for under the limit", s.ask(12), "file too large")
	if n := s.Executions("A"); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
	s.Judge(eye)
}

// TestAgentWhoseWorkFolderIsMovedAwayWaitsForIt: what was executed meanwhile is answered
// once, what is asked for is refused with what to do, and it goes on by itself when the
// folder is back.
func TestAgentWhoseWorkFolderIsMovedAwayWaitsForIt(t *testing.T) {
	t.Parallel()
	s, eye := newStand(t, site.Config{Work: site.AwaitGate, Claims: site.Executed()})
	s.Serve()
	agent := s.Agent("A")
	run := s.ask(60)
	s.Executed("A", 1)
	away := s.Kept("A") + ".away"
	if err := os.Rename(s.Kept("A"), away); err != nil {
		t.Fatal(err)
	}
	s.Open("A")
	s.wantSuccess("executed while the folder was away", run)
	agent.AwaitOutput("the work folder takes no writes")
	agent.AwaitOutput("was moved away: put it back")
	s.wantRefusal("asked for while it was away", s.ask(12), "was moved away: put it back")
	if _, err := os.Stat(s.Kept("A")); err == nil {
		t.Error("another folder was made in its place")
	}
	if err := os.Rename(away, s.Kept("A")); err != nil {
		t.Fatal(err)
	}
	agent.AwaitOutput("the work folder takes writes again")
	s.wantSuccess("asked for when it was back", s.ask(60))
	agent.Kill()
	s.Agent("A")
	s.wantSuccess("asked for after a restart", s.ask(60))
	if n := s.Executions("A"); n != 3 {
		t.Errorf("%d executions, want 3", n)
	}
	s.Judge(eye)
}

// TestDamagedOutboxAndJournalAreSetAsideAndTheRestIsSent: an empty and a
// half-written answer, garbage in the middle of the journal and a torn end.
func TestDamagedOutboxAndJournalAreSetAsideAndTheRestIsSent(t *testing.T) {
	t.Parallel()
	s, eye := newStand(t, site.Config{Work: site.AwaitGate, Claims: site.Executed()})
	s.Serve()
	agent := s.Agent("A")
	run := s.ask(60)
	s.Executed("A", 1)
	s.Fault(eye, true)
	s.HQ.Kill()
	s.Open("A")
	box := filepath.Join(s.Kept("A"), "outbox")
	var answer string
	programs.Eventually(t, "the answer in the outbox", func() bool {
		found, _ := filepath.Glob(filepath.Join(box, "*.answer"))
		if len(found) == 1 {
			answer = found[0]
		}
		return answer != ""
	})
	agent.Kill()
	whole, err := os.ReadFile(answer)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(box, "r_T1_1_00000000.answer"), nil)
	put(t, filepath.Join(box, "r_T2_1_11111111.answer"), whole[:len(whole)/2])
	journal := filepath.Join(s.Kept("A"), "journal.log")
	lines, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(lines, '\n') + 1
	put(t, journal, bytes.Join([][]byte{lines[:first], []byte("\x00garbage\xff\n"), lines[first:], []byte("0bad5eed {\"task")}, nil))
	s.Serve()
	s.Fault(eye, false)
	s.Agent("A")
	s.wantSuccess("executed before the damage", run)
	aside, err := filepath.Glob(filepath.Join(box, "damaged", "*.answer"))
	if err != nil || len(aside) != 2 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
	if text, err := os.ReadFile(filepath.Join(s.Kept("A"), "journal.damaged")); err != nil || !bytes.Contains(text, []byte("garbage")) {
		t.Errorf("set aside: %q, %v", text, err)
	}
	s.wantSuccess("asked for after the damage", s.ask(60))
	if n := s.Executions("A"); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
	s.Judge(eye)
}

func put(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
