package ordering_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
)

// TestARequestIsTheSameWithAnotherDeadline: a command that reckons it from the clock
// ($(date ...)) asks for the same run when it is sent again.
func TestARequestIsTheSameWithAnotherDeadline(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const payload = `{"requestId":"r1","job":"collect_log","stores":["007"]}`
	first := d.ask(protocol.VerbRun, string(until(payload, d.clock().Add(time.Minute))))
	if !first.OK {
		t.Fatalf("got %+v", first)
	}
	for _, again := range []string{string(until(payload, d.clock().Add(2*time.Minute))), payload} {
		if got := d.ask(protocol.VerbRun, again); !got.OK || got.RunID != first.RunID || !*got.Duplicate {
			t.Errorf("%s: got %+v", again, got)
		}
	}
}

// TestAConflictNamesTheMembersThatDiffer, of a request that made its run and of one that
// waits for its approval.
func TestAConflictNamesTheMembersThatDiffer(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) { c.Bounds.ApprovalOver = 2 })
	made := d.ask(protocol.VerbRun, `{"requestId":"made","job":"collect_log","stores":["007","1E5"],"reason":"a","barrierSeconds":60}`)
	waits := d.ask(protocol.VerbRun, `{"requestId":"waits","job":"collect_log","stores":"all"}`)
	if !made.OK || waits.Code != protocol.CodeNeedsApproval {
		t.Fatalf("got %+v and %+v", made, waits)
	}
	for payload, differs := range map[string]string{
		`{"requestId":"made","job":"collect_log","stores":["1E5"],"reason":"a","barrierSeconds":60}`:                     "stores",
		`{"requestId":"made","job":"collect_log","stores":["1E5","007"],"reason":"a"}`:                                   "barrierSeconds",
		`{"requestId":"made","job":"collect_log","stores":["1E5","007"],"reason":"b","barrierSeconds":60,"attempts":3}`:  "attempts, reason",
		fmt.Sprintf(`{"requestId":"made","runId":"%s"}`, made.RunID):                                                     "barrierSeconds, job, reason, runId, stores",
		`{"requestId":"waits","job":"collect_log","stores":"all","input":{"date":"yesterday"},"deadline":9000000000000}`: "input",
	} {
		verb := protocol.VerbRun
		if strings.Contains(payload, "runId") {
			verb = protocol.VerbRetry
		}
		got := d.ask(verb, payload)
		if got.Code != protocol.CodeConflict || got.Path != "/requestId" || !strings.Contains(got.Message, "with other content (it differs in "+differs+");") ||
			!strings.Contains(got.MessageZh, "（不同的字段："+strings.ReplaceAll(differs, ", ", "、")+"）") {
			t.Errorf("%s\ngot %s %q %q", payload, got.Code, got.Message, got.MessageZh)
		}
	}
	if n := d.runs(); n != 1 {
		t.Errorf("%d runs", n)
	}
}
