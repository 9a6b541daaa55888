package kills_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/tests/chaos/history"
	"muster/tests/programs"
)

// What there is after a death says that the point was met. Each returns "", or
// what is wrong.

func noReceipt(s *scene) string {
	if s.said(history.ActGot, `"order":"receipt"`) {
		return "the receipt was out"
	}
	return ""
}

func runs(want int) func(*scene) string {
	return func(s *scene) string {
		if got := len(s.Store().Runs); got != want {
			return fmt.Sprintf("%d runs in the store, want %d", got, want)
		}
		return ""
	}
}

// reports wants that many files of revision 1; the manifest is the fifth.
func reports(want int) func(*scene) string {
	return func(s *scene) string {
		if found, _ := filepath.Glob(filepath.Join(s.Reports(), "*", "*", "[0-9]*_r1*")); len(found) != want {
			return fmt.Sprintf("%d report files, want %d: %v", len(found), want, found)
		}
		return ""
	}
}

func published(s *scene) string {
	if revisions := s.Store().Revisions; len(revisions) != 1 || revisions[0].PublishedAt == 0 {
		return fmt.Sprintf("revisions %+v", revisions)
	}
	if s.said(history.ActGot, `"verdict"`) {
		return "the summary was out"
	}
	return ""
}

func executed(want int) func(*scene) string {
	return func(s *scene) string {
		if got := s.Executions("A"); got != want {
			return fmt.Sprintf("%d executions, want %d", got, want)
		}
		return ""
	}
}

// kept wants one file in the outbox whose name ends so; "": none.
func kept(ending string) func(*scene) string {
	return func(s *scene) string {
		found, _ := filepath.Glob(filepath.Join(s.Kept("A"), "outbox", "r_*"))
		if ending == "" && len(found) == 0 || ending != "" && len(found) == 1 && strings.HasSuffix(found[0], ending) {
			return ""
		}
		return fmt.Sprintf("the outbox holds %v, want one *%s", found, ending)
	}
}

// journalled says that a phase stands in the agent's journal.
func journalled(phase string) func(*scene, *trap) bool {
	return func(s *scene, _ *trap) bool {
		text, err := os.ReadFile(filepath.Join(s.Kept("A"), "journal.log"))
		return err == nil && strings.Contains(string(text), phase)
	}
}

// committing says that the text stands in the write-ahead log.
func committing(text string) func(*scene, *trap) bool {
	return func(s *scene, _ *trap) bool {
		log, err := os.ReadFile(filepath.Join(s.Dir, wal))
		return err == nil && bytes.Contains(log, []byte(text))
	}
}

// interrupt is SIGTERM; the program may not get to its end.
func (s *scene) interrupt() {
	if err := syscall.Kill(s.HQ.PID(), syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// TestAnswerSentWithoutAReceiptIsSentAgain kills an agent whose answer is out
// while headquarters does not move: no strace is needed.
func TestAnswerSentWithoutAReceiptIsSentAgain(t *testing.T) { // I1, I8
	t.Parallel()
	s := newScene(t)
	reply, _ := s.ask()
	s.Executed("A", 1)
	resume := s.pause()
	s.Open("A")
	programs.Eventually(t, "the answer on its way", func() bool { return s.said(history.ActSent, `"outcome":"succeeded"`) })
	s.agent.Kill()
	resume()
	s.startAgent()
	s.ended(reply.RunID, 1, 1)
}
