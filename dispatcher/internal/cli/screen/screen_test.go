package screen_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/cli/screen"
	"muster/internal/protocol"
)

// TestMomentsAreShownWhereTheCommandRuns, whichever offset a reply bears.
//
//nolint:paralleltest // it moves the machine
func TestMomentsAreShownWhereTheCommandRuns(t *testing.T) {
	here := time.Local
	time.Local = time.FixedZone("Asia/Shanghai", 8*3600)
	t.Cleanup(func() { time.Local = here })
	at := protocol.At(time.Date(2026, 9, 17, 8, 30, 12, 0, time.UTC))
	const want = "2026-09-17 16:30:12 +08:00"
	if got := screen.Moment(at); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var out bytes.Buffer
	screen.Refusal(&out, protocol.Reply{Code: protocol.CodeNeedsApproval, ApprovalID: "ap-1", ExpiresAt: at})
	if !strings.Contains(out.String(), "approval ap-1, until "+want+"\n") {
		t.Errorf("got %s", out.String())
	}
}
