package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/app"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

func TestAnAlarmSaysWhenTheTroubleIsOver(t *testing.T) {
	t.Parallel()
	hq := setup(t, app.TransportEmbedded, []string{"A001"}, nil)
	zone, err := time.LoadLocation(hq.cfg.TimeZone)
	if err != nil {
		t.Fatal(err)
	}
	// Files where the folders of this year and the next belong.
	var inTheWay []string
	for _, year := range []int{0, 1} {
		name := filepath.Join(hq.cfg.ReportsFolder, time.Now().In(zone).AddDate(year, 0, 0).Format("2006"))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		inTheWay = append(inTheWay, name)
	}
	tech := hq.technician("alice")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := tech.conn.Subscribe(ctx, hq.topics.Root()+"/alarms/#"); err != nil {
		t.Fatal(err)
	}
	run := tech.run(`{"job":"probe","stores":"all"}`)
	tech.ask(protocol.VerbCancel, fmt.Sprintf(`{"runId":%q}`, run.RunID))

	alarm := func(recovered bool) protocol.Alarm {
		var a protocol.Alarm
		tech.await(fmt.Sprintf("the alarm with recovered %t", recovered), func(m fleet.Message) bool {
			return m.Topic == hq.topics.Alarm(protocol.SeverityCritical, "report_not_published") &&
				protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &a) == nil && a.Recovered == recovered
		})
		return a
	}
	if a := alarm(false); !strings.Contains(a.Message, "run "+run.RunID+": cannot") {
		t.Errorf("trouble: %+v", a)
	}
	for _, name := range inTheWay {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if a := alarm(true); a.Message != "run "+run.RunID+": it is over" {
		t.Errorf("over: %+v", a)
	}
	tech.summary(run.RunID, 1)
}
