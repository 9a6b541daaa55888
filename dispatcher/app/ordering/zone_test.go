package ordering_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
)

// TestSentencesShowTimesWhereTheyAreRead, while the members of a reply stay as they are.
func TestSentencesShowTimesWhereTheyAreRead(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	inZone(t, asked, "2026-09-17 16:30:12 +08:00")
	if !asked.ExpiresAt.Equal(time.Date(2026, 9, 17, 8, 30, 12, 0, time.UTC)) {
		t.Errorf("the member is %v", asked.ExpiresAt)
	}
	late := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":"all","deadline":1789630211999}`)
	inZone(t, late, "2026-09-17 15:30:11.999 +08:00", "2026-09-17 15:30:12.000 +08:00")
	d.pass(time.Hour)
	overdue, told := d.as("chen", protocol.VerbApprove, word(asked, "approve"))
	inZone(t, overdue, "2026-09-17 16:30:12 +08:00")
	inZone(t, *told, "2026-09-17 16:30:12 +08:00")
}

func TestAnEarlyRetryIsToldWhenInTheZone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	run := d.ask(protocol.VerbRun, `{"job":"collect_log","stores":["007"],"barrierSeconds":60}`)
	inZone(t, d.ask(protocol.VerbRetry, `{"runId":"`+run.RunID+`"}`), "2026-09-17 15:31:12 +08:00")
}

func TestADeadlineTooFarAheadIsToldInTheZone(t *testing.T) {
	t.Parallel()
	o := signedOffice(t)
	far := until(`{"requestId":"r0","job":"collect_log","stores":"all"}`, o.clock().Add(time.Hour))
	inZone(t, o.sends("wang", protocol.VerbRun, far), "2026-09-17 16:30:12.000 +08:00", "2026-09-17 15:30:12.000 +08:00")
}

func TestKeysThatCannotBeMadeWaitOnInTheZone(t *testing.T) {
	t.Parallel()
	d := setup(t, func(c *trigger.Config) {
		c.Approved = func(context.Context, store.Approval) error { return errors.New("the disk is full") }
	})
	id, hash, err := d.trigger.AskKeys(t.Context(), "host:root", false)
	if err != nil {
		t.Fatal(err)
	}
	reply, _ := d.as("chen", protocol.VerbApprove, word(protocol.Reply{ApprovalID: id, ContentHash: hash}, "approve"))
	inZone(t, reply, "2026-09-17 16:30:12 +08:00")
}

// inZone checks that both languages show these times, and none in another form.
func inZone(t *testing.T, reply protocol.Reply, times ...string) {
	t.Helper()
	for _, said := range []string{reply.Message + "; " + reply.Hint, reply.MessageZh + "；" + reply.HintZh} {
		for _, at := range times {
			if !strings.Contains(said, at) {
				t.Errorf("%s is not in %q", at, said)
			}
		}
		if other := regexp.MustCompile(`[0-9]T[0-9:.]+(Z|[-+][0-9:]+)`).FindString(said); other != "" {
			t.Errorf("%s in %q", other, said)
		}
	}
}

// TestAnApproverIsToldTheCommandAndTheKit: those who have no commands have the kit.
func TestAnApproverIsToldTheCommandAndTheKit(t *testing.T) {
	t.Parallel()
	d := setup(t, careful)
	asked := d.asked(order)
	for _, hint := range []string{asked.Hint, asked.HintZh} {
		for _, part := range []string{"dispatcher approve " + asked.ApprovalID, "ask.sh", "ask.ps1", "approvalId", "contentHash"} {
			if !strings.Contains(hint, part) {
				t.Errorf("%q lacks %s", hint, part)
			}
		}
	}
}
