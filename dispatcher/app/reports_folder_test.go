package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

// TestAReportsFolderThatIsAwayAtTheStartIsNotMade: it may be a share, which would hide
// what is written in its place. Headquarters starts, and the report waits for it.
func TestAReportsFolderThatIsAwayAtTheStartIsNotMade(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A001"}, nil) // a new one makes it
	away := hq.cfg.ReportsFolder + ".away"
	hq.stop()
	if err := os.Rename(hq.cfg.ReportsFolder, away); err != nil {
		t.Fatal(err)
	}
	hq.start()
	tech := hq.technician("alice")
	if err := tech.conn.Subscribe(t.Context(), hq.topics.Root()+"/alarms/#"); err != nil {
		t.Fatal(err)
	}
	run := tech.run(`{"job":"probe","stores":"all"}`)
	tech.ask(protocol.VerbCancel, fmt.Sprintf(`{"runId":%q}`, run.RunID))
	tech.await("the alarm", func(m fleet.Message) bool {
		var a protocol.Alarm
		return m.Topic == hq.topics.Alarm(protocol.SeverityCritical, "report_not_published") && protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &a) == nil &&
			strings.Contains(a.Message, "cannot open the report folder") && strings.Contains(a.Message, "mount what belongs there")
	})
	if _, err := os.Stat(hq.cfg.ReportsFolder); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the folder is made: %v", err)
	}
	if err := os.Rename(away, hq.cfg.ReportsFolder); err != nil {
		t.Fatal(err)
	}
	hq.report(tech.summary(run.RunID, 1))
}
