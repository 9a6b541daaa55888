package attack_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// verify runs the verification of the audit.
func (s *site) verify(data string) (string, error) {
	s.t.Helper()
	return s.try("dispatcher", "audit", "verify", "--data", data, "--reports", s.path("reports"), "--identity", s.path("identity"))
}

func TestS35EditedRemovedAndCutAuditEntriesAreFound(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	for n := range 5 {
		if reply := s.ask("operator", "run", fmt.Sprintf(`{"job":"probe","stores":["A"],"requestId":"audit-%d","barrierSeconds":1}`, n)); !reply.OK {
			t.Fatalf("%+v", reply)
		}
	}
	programs.Eventually(t, "an audit that holds, beside a running headquarters", func() bool {
		_, err := s.verify(s.path("data"))
		return err == nil
	})
	s.hq.Terminate() // notes the head
	if out, err := s.verify(s.path("data")); err != nil {
		t.Fatalf("untouched: %v: %s", err, out)
	}
	const drop = "DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete; "
	for name, edit := range map[string]string{
		"edited text":  drop + "UPDATE audit SET detail = detail || ' ' WHERE id = 3",
		"edited actor": drop + "UPDATE audit SET actor = 'nobody' WHERE id = 2",
		"edited time":  drop + "UPDATE audit SET at = at + 1 WHERE id = 4",
		"removed":      drop + "DELETE FROM audit WHERE id = 3",
		"cut tail":     drop + "DELETE FROM audit WHERE id >= (SELECT max(id) FROM audit)",
		"emptied":      drop + "DELETE FROM audit",
	} {
		copied := s.path("copy-" + strings.ReplaceAll(name, " ", "-"))
		if err := os.CopyFS(copied, os.DirFS(s.path("data"))); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", filepath.Join(copied, "muster.db"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), strings.TrimPrefix(edit, drop)); err == nil {
			t.Errorf("%s: the triggers let it through", name)
		}
		if _, err := db.ExecContext(t.Context(), edit); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if out, err := s.verify(copied); err == nil {
			t.Errorf("%s is not found: %s", name, out)
		}
	}
}

func TestS36NobodyApprovesTheirOwnAndNothingElseThanWasAsked(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{more: "approval: {over_stores: 2}\n"}, "A", "B", "C")
	asked := s.ask("operator", "run", `{"job":"guarded","stores":["A"],"requestId":"g1"}`)
	if asked.OK || asked.Code != protocol.CodeNeedsApproval || asked.ApprovalID == "" || asked.ContentHash == "" {
		t.Fatalf("%+v", asked)
	}
	if many := s.ask("operator", "run", `{"job":"probe","stores":"all","requestId":"m1"}`); many.Code != protocol.CodeNeedsApproval {
		t.Errorf("three stores: %+v", many)
	}
	if few := s.ask("operator", "run", `{"job":"probe","stores":["A","B"],"requestId":"f1"}`); !few.OK {
		t.Errorf("two stores: %+v", few)
	}
	decision := func(r protocol.Reply) string {
		return fmt.Sprintf(`{"approvalId":%q,"contentHash":%q,"decision":"approve"}`, r.ApprovalID, r.ContentHash)
	}
	for _, name := range []string{"operator", "technician", "mate", "developer"} {
		if reply := s.ask(name, "approve", decision(asked)); reply.OK {
			t.Errorf("%s approved: %+v", name, reply)
		}
	}
	other := asked
	other.ContentHash = strings.Repeat("0", len(other.ContentHash))
	if reply := s.ask("approver", "approve", decision(other)); reply.OK {
		t.Errorf("other content was approved: %+v", reply)
	}
	reply := s.ask("approver", "approve", decision(asked))
	if !reply.OK || reply.RunID == "" {
		t.Fatalf("%+v", reply)
	}
	if again := s.ask("approver", "approve", decision(asked)); again.RunID != reply.RunID {
		t.Errorf("approved twice: %+v", again)
	}

	// Nor does somebody who became an approver since they asked.
	asked = s.ask("operator", "run", `{"job":"guarded","stores":["A"],"requestId":"promoted"}`)
	before := string(s.read("users.yaml"))
	s.hq.Terminate()
	s.write("users.yaml", strings.Replace(before, "{name: operator, role: operator,", "{name: operator, role: approver,", 1))
	s.serve()
	if reply := s.ask("operator", "approve", decision(asked)); reply.OK || reply.Code != protocol.CodeNotAllowed {
		t.Errorf("approved their own after a change of role: %+v", reply)
	}
	s.hq.Terminate()
	s.write("users.yaml", before)
	s.serve()

	// What changes after it was asked voids it.
	for n, change := range []func(){
		func() {
			s.write("jobs/guarded.yaml", strings.Replace(string(s.read("jobs/guarded.yaml")), "lease: 10s", "lease: 11s", 1))
		},
		func() {
			s.write("jobs/probe_input.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","maxProperties":9}`)
		},
	} {
		asked := s.ask("operator", "run", fmt.Sprintf(`{"job":"guarded","stores":["A"],"requestId":"changed-%d"}`, n))
		s.hq.Terminate()
		change()
		s.serve()
		if reply := s.ask("approver", "approve", decision(asked)); reply.OK {
			t.Errorf("change %d: approved all the same: %+v", n, reply)
		}
	}
	asked = s.ask("operator", "run", `{"job":"guarded","stores":"all","requestId":"grown"}`)
	s.hq.Terminate()
	s.write("stores.csv", string(s.read("stores.csv"))+"D,new,Asia/Shanghai,\n")
	s.serve()
	if reply := s.ask("approver", "approve", decision(asked)); reply.OK {
		t.Errorf("a store joined: approved all the same: %+v", reply)
	}
}

func TestS11ReplayedTriggersMakeOneRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	const request = `{"job":"probe","stores":["A"],"requestId":"once"}`
	first := s.ask("operator", "run", request)
	if !first.OK {
		t.Fatalf("%+v", first)
	}
	for range 3 {
		if again := s.ask("operator", "run", request); again.RunID != first.RunID || again.Duplicate == nil || !*again.Duplicate {
			t.Errorf("again: %+v", again)
		}
	}
	s.hq.Kill()
	s.serve()
	if again := s.ask("operator", "run", request); again.RunID != first.RunID {
		t.Errorf("after a restart: %+v", again)
	}
	if other := s.ask("operator", "run", `{"job":"probe","stores":["A"],"requestId":"once","reason":"other"}`); other.Code != protocol.CodeConflict {
		t.Errorf("other content: %+v", other)
	}
	if theirs := s.ask("technician", "run", request); theirs.RunID == first.RunID {
		t.Errorf("somebody else's request id is theirs: %+v", theirs)
	}
}

func TestS12AnswersCountForTheirOwnTaskStoreAndAttempt(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	agent, markers := s.agent("A", "pos1", s.enrol("A", "pos1"))
	agent.AwaitOutput("link is up")
	thief := s.steal("B", "pos1", s.enrol("B", "pos1"))
	b := s.enter(thief.login())
	reply := s.ask("operator", "run", `{"job":"probe","stores":["A","B"],"barrierSeconds":8}`)
	programs.Eventually(t, "the execution at A", func() bool { return len(lines(t, markers)) == 1 })
	taskA := strings.Split(lines(t, markers)[0], "/")[0]
	b.subscribe("muster/v1/stores/B/tasks/+")
	var taskB string
	programs.Eventually(t, "the offer at B", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, m := range b.messages {
			taskB = m.Topic[strings.LastIndex(m.Topic, "/")+1:]
		}
		return taskB != ""
	})
	topic := "muster/v1/stores/B/terminals/pos1/result"
	say := func(task string, attempt int, signer stolen) {
		t.Helper()
		payload := fmt.Sprintf(`{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-09-17T12:00:00.000Z","seq":%d,"taskId":%q,"attempt":%d,"outcome":"succeeded","result":{"marker":"forged"},"startedAt":1,"finishedAt":2,"durationMs":1,"executed":true,"sha256":%q}`,
			nextSeq(), task, attempt, digest(`{"marker":"forged"}`))
		if _, err := b.publish(message{topic: topic, payload: payload, signature: signer.signer.Sign(topic, []byte(payload))}); err != nil {
			b = s.enter(thief.login())
		}
	}
	for _, attempt := range []int{1, 2, 3} { // a task of A's, a task never granted, and none
		say(taskA, attempt, thief)
		say(taskB, attempt, thief)
		say("T-NONE", attempt, thief)
	}
	report := s.report(reply.RunID, 1)
	for _, row := range report.Stores {
		if strings.Contains(mustJSON(t, row), "forged") {
			t.Errorf("forged: %+v", row)
		}
		if row.StoreID == "A" && row.Outcome != "succeeded" || row.StoreID == "B" && row.Outcome == "succeeded" {
			t.Errorf("row %+v", row)
		}
	}
}
