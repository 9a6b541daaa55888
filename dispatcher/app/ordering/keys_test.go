package ordering_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger"
	"muster/dispatcher/internal/trigger/approval"
	"muster/internal/protocol"
)

// safe is a desk with a real identity whose keys are rotated as app does it.
type safe struct {
	*desk
	id    *identity.Identity
	fails error // instead of a rotation
	after error // when it was made
}

func setupSafe(t *testing.T) *safe {
	t.Helper()
	s := &safe{}
	folder := filepath.Join(t.TempDir(), "identity")
	begin := time.Date(2026, 9, 17, 7, 30, 12, 0, time.UTC)
	err := identity.Create(folder, []string{"localhost"}, begin)
	if err == nil {
		s.id, err = identity.Open(folder, begin)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.desk = setup(t, func(c *trigger.Config) { c.Approved, c.Rotated = s.rotate, s.id.RotatedBy })
	return s
}

func (s *safe) rotate(_ context.Context, a store.Approval) error {
	request, err := approval.ReadKeys(a)
	if err == nil {
		err = s.fails
	}
	if err == nil {
		_, err = s.id.Replace(identity.Rotation{Approval: a.ApprovalID, AtOnce: request.Now}, s.clock())
	}
	if err == nil && a.DecidedBy == "" {
		err = errors.New("nobody decided")
	}
	if err == nil {
		err = s.after
	}
	return err
}

func (s *safe) asks(now bool) protocol.Reply {
	s.t.Helper()
	id, hash, err := s.trigger.AskKeys(s.t.Context(), "host:chen", now)
	if err != nil {
		s.t.Fatal(err)
	}
	return protocol.Reply{ApprovalID: id, ContentHash: hash}
}

func (s *safe) state(asked protocol.Reply) *protocol.Approval {
	s.t.Helper()
	shown, _ := s.as("li", protocol.VerbStatus, `{"approvalId":"`+asked.ApprovalID+`"}`)
	return shown.Approval
}

func TestTheApproverOfKeysIsToldWhatHappened(t *testing.T) {
	t.Parallel()
	s := setupSafe(t)
	asked := s.asks(false)
	reply, _ := s.as("li", protocol.VerbApprove, word(asked, "approve"))
	keys := s.id.Keys().Keys
	want := "new key " + keys[len(keys)-1].KeyID + " signs from 2026-09-18 15:30:12 +08:00"
	if !reply.OK || *reply.Duplicate || reply.Message != want || !strings.Contains(reply.MessageZh, "新密钥") || len(keys) != 2 {
		t.Errorf("got %+v, %d keys", reply, len(keys))
	}
	if again, _ := s.as("zhao", protocol.VerbApprove, word(asked, "approve")); !again.OK || !*again.Duplicate || again.Message != want {
		t.Errorf("again: %+v", again)
	}
	if shown := s.state(asked); shown.State != "approved" || shown.Why != want {
		t.Errorf("shown %+v", shown)
	}
	second := s.asks(true)
	if no, _ := s.as("li", protocol.VerbApprove, word(second, "reject")); !no.OK || !strings.HasPrefix(no.Message, "rejected") || s.id.Keys().Version != 2 {
		t.Errorf("rejected: %+v", no)
	}
}

func TestARotationThatFailsWaitsOnAndSaysWhy(t *testing.T) {
	t.Parallel()
	s := setupSafe(t)
	asked := s.asks(false)
	s.fails = errors.New("the authority's key is not there; put ca.key back")
	for range 2 {
		reply, _ := s.as("li", protocol.VerbApprove, word(asked, "approve"))
		if reply.OK || reply.Code != protocol.CodeInternal || !strings.Contains(reply.Message, "put ca.key back") || !strings.Contains(reply.MessageZh, "put ca.key back") {
			t.Errorf("got %+v", reply)
		}
	}
	if shown := s.state(asked); shown.State != "pending" || s.id.Keys().Version != 1 {
		t.Errorf("it is %s, version %d", shown.State, s.id.Keys().Version)
	}
	s.fails = nil
	if reply, _ := s.as("li", protocol.VerbApprove, word(asked, "approve")); !reply.OK || *reply.Duplicate || s.id.Keys().Version != 2 {
		t.Errorf("then: %+v, version %d", reply, s.id.Keys().Version)
	}
}

// What was done before a crash could note it is done once.
func TestAnApprovalGivenAgainAfterACrashRotatesOnce(t *testing.T) {
	t.Parallel()
	for _, now := range []bool{false, true} {
		s := setupSafe(t)
		asked := s.asks(now)
		s.after = errors.New("killed")
		if reply, _ := s.as("li", protocol.VerbApprove, word(asked, "approve")); reply.OK {
			t.Fatalf("got %+v", reply)
		}
		made := s.id.Signer(s.clock().Add(48 * time.Hour)).KeyID()
		s.after = nil
		s.pass(10 * time.Minute)
		reply, _ := s.as("zhao", protocol.VerbApprove, word(asked, "approve"))
		if !reply.OK || !strings.Contains(reply.Message, made) || s.id.Keys().Version != 2 || s.state(asked).DecidedBy != "zhao" {
			t.Errorf("now %t: %+v, version %d", now, reply, s.id.Keys().Version)
		}
	}
}

func TestAStolenKeyIsStruckOutByTwoPersons(t *testing.T) {
	t.Parallel()
	s := setupSafe(t)
	slow, fast := s.asks(false), s.asks(true)
	if slow.ApprovalID == fast.ApprovalID || slow.ContentHash == fast.ContentHash {
		t.Fatalf("one stands for the other: %+v, %+v", slow, fast)
	}
	if again := s.asks(true); again.ApprovalID != fast.ApprovalID {
		t.Errorf("asked twice: %+v", again)
	}
	mixed := fast
	mixed.ContentHash = slow.ContentHash
	if reply, _ := s.as("li", protocol.VerbApprove, word(mixed, "approve")); reply.Code != protocol.CodeConflict {
		t.Errorf("the word for the other one: %+v", reply)
	}
	if shown := s.state(fast); string(shown.Request) != `{"now":true}` || !strings.Contains(shown.Reason, "every older key") {
		t.Errorf("who approves is shown %+v", shown)
	}
	stolen := s.id.Signer(s.clock()).KeyID()
	if reply, _ := s.as("chen", protocol.VerbApprove, word(fast, "approve")); reply.Code != protocol.CodeNotAllowed {
		t.Errorf("who asked: %+v", reply)
	}
	reply, _ := s.as("li", protocol.VerbApprove, word(fast, "approve"))
	keys := s.id.Keys().Keys
	if !reply.OK || !strings.HasSuffix(reply.Message, "signs from 2026-09-17 15:30:12 +08:00") || len(keys) != 1 || keys[0].KeyID == stolen || s.id.Signer(s.clock()).KeyID() == stolen {
		t.Errorf("got %+v, %+v", reply, keys)
	}
}
