package attack_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/programs"
)

// TestKeysAreReplacedByTwoPersonsWhileTerminalsWork: the new list of keys
// reaches the terminals that are there and those that come back, and orders are
// obeyed throughout.
func TestKeysAreReplacedByTwoPersonsWhileTerminalsWork(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	here, away := s.enrol("A", "pos1"), s.enrol("B", "pos1")
	first, _ := s.agent("A", "pos1", here)
	first.AwaitOutput("link is up")
	gone, _ := s.agent("B", "pos1", away)
	gone.AwaitOutput("link is up")
	gone.Kill()

	decision := s.askKeys()
	if reply := s.ask("operator", "approve", decision); reply.OK {
		t.Errorf("an operator approved: %+v", reply)
	}
	if version := listVersion(t, here); version != 1 {
		t.Errorf("the list is version %d before anybody agreed", version)
	}
	if reply := s.ask("approver", "approve", decision); !reply.OK {
		t.Fatalf("%+v", reply)
	}
	programs.Eventually(t, "the new list at the terminal that is there", func() bool { return listVersion(t, here) == 2 })
	s.agent("B", "pos1", away)
	programs.Eventually(t, "the new list at the terminal that comes back", func() bool { return listVersion(t, away) == 2 })

	s.hq.Kill()
	s.serve()
	reply := s.ask("operator", "run", `{"job":"probe","stores":"all"}`)
	if report := s.report(reply.RunID, 1); report.Counts.Succeeded != 2 {
		t.Errorf("counts %+v", report.Counts)
	}

	// A stolen key is struck out at once, and what was signed with it is void.
	if reply := s.ask("approver", "approve", s.askKeys("--now")); !reply.OK {
		t.Fatalf("%+v", reply)
	}
	programs.Eventually(t, "the list without the old keys", func() bool { return len(listed(t, here).Keys) == 1 && len(listed(t, away).Keys) == 1 })
	again := s.ask("operator", "run", `{"job":"probe","stores":"all","requestId":"after"}`)
	if report := s.report(again.RunID, 1); report.Counts.Succeeded != 2 {
		t.Errorf("after the strike: counts %+v", report.Counts)
	}
	programs.Eventually(t, "a witness of the audit whose key is believed", func() bool {
		_, err := s.verify(s.path("data"))
		return err == nil
	})
}

// askKeys asks for new keys and returns what an approver says to that.
func (s *site) askKeys(flags ...string) (decision string) {
	s.t.Helper()
	var asked protocol.Reply
	out := s.run("dispatcher", append([]string{"keys", "rotate", "--data", s.path("data"), "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &asked); err != nil {
		s.t.Fatalf("%q: %v", out, err)
	}
	return fmt.Sprintf(`{"approvalId":%q,"contentHash":%q,"decision":"approve"}`, asked.ApprovalID, asked.ContentHash)
}

// listVersion is the version of the list of keys that a terminal trusts.
func listVersion(t *testing.T, folder string) int64 { return listed(t, folder).Version }

func listed(t *testing.T, folder string) trust.Document {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "trust.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sealed trust.Sealed
	if err := json.Unmarshal(text, &sealed); err != nil {
		t.Fatal(err)
	}
	var document trust.Document
	if err := json.Unmarshal([]byte(sealed.Document), &document); err != nil {
		t.Fatal(err)
	}
	return document
}
