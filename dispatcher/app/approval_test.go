package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

// TestTwoPersonsStandInTheReport takes a run that needs a second person from
// the request to its report, over either broker and a restart.
func TestTwoPersonsStandInTheReport(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"007", "1E5"}, func(cfg *config.Config) { careful(t, cfg.JobsFolder); cfg.TimeZone = "Asia/Shanghai" })
		const order = `{"requestId":"a","job":"probe","stores":"all"}`
		wang, chen := hq.technician("wang"), hq.technician("chen")
		asked := wang.ask(protocol.VerbRun, order)
		if asked.OK || asked.Code != protocol.CodeNeedsApproval || asked.ApprovalID == "" {
			t.Fatalf("the order: %+v", asked)
		}
		if by := asked.ExpiresAt.In(time.FixedZone("", 8*3600)).Format("2006-01-02 15:04:05 -07:00"); !strings.Contains(asked.Message, by) || !strings.Contains(asked.MessageZh, by) {
			t.Errorf("it waits until %s, which is not in %q, %q", by, asked.Message, asked.MessageZh)
		}
		wang.conn.Close()
		chen.conn.Close()
		hq.restart()
		wang, chen = hq.technician("wang"), hq.technician("chen")
		for _, store := range []string{"007", "1E5"} {
			hq.terminal(store, fleet.Options{Execute: value("1")})
		}
		word := `{"approvalId":"` + asked.ApprovalID + `","contentHash":"` + asked.ContentHash + `","decision":"approve"}`
		if own := wang.ask(protocol.VerbApprove, word); own.Code != protocol.CodeNotAllowed {
			t.Errorf("their own word: %+v", own)
		}
		reply := chen.ask(protocol.VerbApprove, word)
		if !reply.OK || reply.RunID == "" {
			t.Fatalf("the word of another: %+v", reply)
		}
		told := wang.await("what was decided", func(m fleet.Message) bool { return m.Topic == hq.topics.LastReply("wang") })
		if !bytes.Contains(told.Payload, []byte(`"runId":"`+reply.RunID+`"`)) || !bytes.Contains(told.Payload, []byte(`"ok":true`)) {
			t.Errorf("told %s", told.Payload)
		}
		wang.await("the line that tells of the start", func(m fleet.Message) bool {
			return m.Topic == hq.topics.Run(reply.RunID, protocol.RunText) && strings.Contains(string(m.Payload), "approved by chen")
		})
		summary := wang.summary(reply.RunID, 1)
		report := hq.report(summary)
		if summary.ApprovedBy != "chen" || report.ApprovedBy != "chen" || report.RequestedBy != "wang" || report.Counts != (protocol.Counts{Succeeded: 2}) {
			t.Errorf("summary by %q, report %+v", summary.ApprovedBy, report.ReportHead)
		}
		if page := hq.file(summary, ".html"); !bytes.Contains(page, []byte("<bdi>chen</bdi>")) {
			t.Error("the page does not name who approved")
		}
		if again := wang.ask(protocol.VerbRun, order); !again.OK || again.RunID != reply.RunID || !*again.Duplicate {
			t.Errorf("the order again: %+v", again)
		}
	})
}

// careful marks the job as one that needs a second person.
func careful(t *testing.T, jobs string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(jobs, "probe.yaml"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("approval: true\n")
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		t.Fatal(err)
	}
}
