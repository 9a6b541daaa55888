package cli_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
)

// secret is a file that holds no key.
func secret(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func careful(c *trigger.Config) {
	spec, _ := c.Jobs.Get("collect_log")
	spec.Approval = true
	c.Jobs = job.NewRegistry(spec)
}

func (hq *headquarters) as(user string, args ...string) (stdout, stderr string, code int) {
	hq.t.Helper()
	return shell(hq.t.Context(), hq.t, "", append(args, "--broker", hq.addr, "--user", user)...)
}

// waiting returns the approvals that wait.
func (hq *headquarters) waiting() []store.Approval {
	hq.t.Helper()
	list, err := hq.store.ListApprovals(hq.t.Context(), true)
	if err != nil {
		hq.t.Fatal(err)
	}
	return list
}

// TestADryRunSaysWhetherASecondPersonIsNeeded, is silent of it where none is, and of the
// end where nobody is online.
func TestADryRunSaysWhetherASecondPersonIsNeeded(t *testing.T) {
	t.Parallel()
	const line = "a second person would have to agree first\n"
	dry := []string{"run", "collect_log", "--stores", "all", "--dry-run"}
	if out, errs, code := setup(t, careful).shell(dry...); code != 0 || !strings.Contains(out, line) || strings.Contains(out, "would be done by") {
		t.Errorf("got %d, %q, %q", code, out, errs)
	}
	if out, errs, code := setup(t).shell(dry...); code != 0 || strings.Contains(out, line) {
		t.Errorf("got %d, %q, %q", code, out, errs)
	}
}

func TestApproveShowsWhatItDecides(t *testing.T) {
	t.Parallel()
	hq := setup(t, careful)
	_, errs, code := hq.as("wang", "run", "collect_log", "--stores", "all", "--reason", "new tariff", "--request-id", "r")
	waiting := hq.waiting()
	if code != screen.ExitNeedsApproval || len(waiting) != 1 || !strings.Contains(errs, "refused: NEEDS_APPROVAL") || !strings.Contains(errs, "approval "+waiting[0].ApprovalID+", until ") {
		t.Fatalf("got %d, %q, %+v", code, errs, waiting)
	}
	id := waiting[0].ApprovalID
	for _, step := range []struct {
		user, args string
		code       int
		say        string
	}{
		{"chen", "approvals", 0, id + "  collect_log at 2 stores, asked by wang, until "},
		{"chen", "approvals " + id, 0, `"reason":"new tariff"`},
		{"wang", "approve " + id, screen.ExitRefused, "NOT_ALLOWED: wang asked for it"},
		{"chen", "approve " + id + " --content-hash " + strings.Repeat("0", 64), screen.ExitRefused, "CONFLICT"},
		{"chen", "approve nope", screen.ExitRefused, "NOT_FOUND"},
		{"chen", "approve " + id, 0, "2 stores, report by"},
		{"chen", "approve " + id, 0, "(the same request made it before)"},
		{"chen", "approve " + id + " --reject", screen.ExitRefused, "was approved by chen before"},
		{"chen", "approvals", 0, "nothing waits for approval"},
		{"li", "approvals " + id, 0, "decided by chen at "},
	} {
		out, errs, code := hq.as(step.user, strings.Fields(step.args)...)
		if code != step.code || !strings.Contains(out+errs, step.say) {
			t.Errorf("%s: %s: %d, %q, %q", step.user, step.args, code, out, errs)
		}
	}
	run, err := hq.store.ListOpenRuns(t.Context())
	if err != nil || len(run) != 1 || run[0].ApprovedBy != "chen" {
		t.Errorf("got %+v, %v", run, err)
	}
}

// TestWaitBeginsWithTheApproval starts to wait before anybody approves.
func TestWaitBeginsWithTheApproval(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]struct {
		code int
		say  string
	}{"": {0, "verdict complete"}, "--reject": {screen.ExitNeedsApproval, "is rejected: not today"}} {
		hq := setup(t, careful)
		hq.onRun(func(run store.Run) {
			hq.publish(run.RunID, protocol.RunSummary, protocol.Summary{Meta: hq.sender.Meta(), RunID: run.RunID, Job: run.Job, Revision: 1, Targets: 2,
				Verdict: protocol.VerdictComplete, Counts: protocol.Counts{Succeeded: 2}, Text: "2 of 2", TextZh: "2 家"})
		})
		ended := make(chan struct{})
		var out, errs string
		var code int
		go func() {
			defer close(ended)
			out, errs, code = hq.as("wang", "run", "collect_log", "--stores", "all", "--wait")
		}()
		deadline := time.After(30 * time.Second)
		for poll := time.NewTicker(10 * time.Millisecond); len(hq.waiting()) == 0; {
			select {
			case <-poll.C:
			case <-deadline:
				t.Fatal("nothing was asked for")
			}
		}
		args := []string{"approve", hq.waiting()[0].ApprovalID, "--reason", "not today"}
		if decision != "" {
			args = append(args, decision)
		}
		if _, errs, code := hq.as("chen", args...); code != 0 {
			t.Fatalf("approve %s: %d, %q", decision, code, errs)
		}
		<-ended
		if code != want.code || !strings.Contains(out+errs, want.say) {
			t.Errorf("%s: got %d, %q, %q", decision, code, out, errs)
		}
		if decision == "" && !strings.Contains(out, ": 2 stores, report by ") {
			t.Errorf("the run is not told: %q", out)
		}
	}
}

// TestKeySignsWhatChangesSomething goes to a headquarters that believes no
// broker, with the key that request-key makes.
func TestKeySignsWhatChangesSomething(t *testing.T) {
	t.Parallel()
	keys := map[string]ed25519.PublicKey{}
	dir := t.TempDir()
	for _, name := range []string{"wang", "chen"} {
		out, errs, code := shell(t.Context(), t, "", "request-key", filepath.Join(dir, name))
		text, ok := strings.CutPrefix(strings.TrimSpace(out), `key: "`)
		public, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(text, `"`))
		if code != 0 || !ok || err != nil || len(public) != ed25519.PublicKeySize {
			t.Fatalf("got %d, %q, %q, %v", code, out, errs, err)
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key's mode is %v, %v", info.Mode(), err)
		}
		keys[name] = public
	}
	hq := setup(t, careful, func(c *trigger.Config) {
		var err error
		c.People, err = people.New(people.Config{RequireSigned: true, Persons: []people.Person{
			{Name: "wang", Role: people.Operator, Key: keys["wang"]}, {Name: "chen", Role: people.Approver, Key: keys["chen"]}}})
		if err != nil {
			t.Fatal(err)
		}
	})
	own := func(name string) string { return filepath.Join(dir, name) }
	order := []string{"run", "collect_log", "--stores", "all", "--request-id", "r"}
	if _, errs, code := hq.as("wang", order...); code != screen.ExitRefused || !strings.Contains(errs, "is not signed") || !strings.Contains(errs, "--key FILE") {
		t.Errorf("unsigned: %d, %q", code, errs)
	}
	if _, errs, code := hq.as("wang", append(order, "--key", own("chen"))...); code != screen.ExitRefused || !strings.Contains(errs, "not of the user's key") {
		t.Errorf("by another: %d, %q", code, errs)
	}
	if _, errs, code := hq.as("wang", append(order, "--key", own("wang"))...); code != screen.ExitNeedsApproval {
		t.Fatalf("signed: %d, %q", code, errs)
	}
	id := hq.waiting()[0].ApprovalID
	if _, errs, code := hq.as("chen", "approve", id); code != screen.ExitRefused || !strings.Contains(errs, "is not signed") {
		t.Errorf("an unsigned word: %d, %q", code, errs)
	}
	if out, errs, code := hq.as("chen", "approve", id, "--key", own("chen")); code != 0 {
		t.Errorf("a signed word: %d, %q, %q", code, out, errs)
	}
	out, errs, code := hq.as("wang", append(order, "--key", own("wang"), "--json")...)
	if code != 0 || !strings.Contains(out, `"duplicate":true`) {
		t.Fatalf("the order again: %d, %q, %q", code, out, errs)
	}
	runs, err := hq.store.ListOpenRuns(t.Context())
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if _, errs, code := hq.as("wang", "cancel", runs[0].RunID); code != screen.ExitRefused || !strings.Contains(errs, "is not signed") {
		t.Errorf("an unsigned cancel: %d, %q", code, errs)
	}
	if out, errs, code := hq.as("wang", "cancel", runs[0].RunID, "--key", own("wang")); code != 0 || !strings.Contains(out, "2 cancelled") {
		t.Errorf("a signed cancel: %d, %q, %q", code, out, errs)
	}
}
