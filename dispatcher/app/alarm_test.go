package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/admin"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

func TestAnAlarmSaysWhenTheTroubleIsOver(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A001"}, nil)
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
	if a := alarm(false); !strings.Contains(a.Message, "run "+run.RunID+": cannot") || !strings.Contains(a.Message, inTheWay[0]) ||
		!strings.Contains(a.Hint, "reports folder") || a.MessageZh != "批次 "+run.RunID+"：报告无法写出" || !strings.Contains(a.HintZh, "报告文件夹") {
		t.Errorf("trouble: %+v", a)
	}
	for _, name := range inTheWay {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if a := alarm(true); a.Message != "run "+run.RunID+": it is over" || a.MessageZh != "批次 "+run.RunID+"：已恢复正常" {
		t.Errorf("over: %+v", a)
	}
	tech.summary(run.RunID, 1)
}

// TestAnAlarmOfTheLifeBeforeIsTakenBack: what was raised before the restart is mended
// while headquarters is down.
func TestAnAlarmOfTheLifeBeforeIsTakenBack(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"A001"}, nil)
	if err := os.Rename(hq.cfg.ReportsFolder, hq.cfg.ReportsFolder+"-away"); err != nil {
		t.Fatal(err)
	}
	about := func(tech *technician, runID string, recovered bool) {
		t.Helper()
		tech.await(fmt.Sprintf("the alarm with recovered %t", recovered), func(m fleet.Message) bool {
			var a protocol.Alarm
			return m.Topic == hq.topics.Alarm(protocol.SeverityCritical, "report_not_published") &&
				protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &a) == nil && a.Recovered == recovered && strings.Contains(a.Message, runID)
		})
	}
	tech := hq.watching("alice")
	run := tech.run(`{"job":"probe","stores":"all"}`)
	tech.ask(protocol.VerbCancel, fmt.Sprintf(`{"runId":%q}`, run.RunID))
	about(tech, run.RunID, false)
	hq.stop()
	if err := os.Mkdir(hq.cfg.ReportsFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	hq.start()
	about(hq.watching("bob"), run.RunID, true)
}

// troubles are what headquarters says needs a person.
func (hq *headquarters) troubles() []string {
	hq.t.Helper()
	line, err := admin.Dial(hq.cfg.DataFolder)
	if err != nil {
		hq.t.Fatal(err)
	}
	health, err := line.Health(hq.t.Context())
	if err != nil {
		hq.t.Fatal(err)
	}
	return health.Troubles
}

// A terminal that the broker keeps out, since two machines have its identity, is
// named with the end of that; health says so meanwhile, and its end is told.
func TestABanIsAnAlarmUntilItIsOver(t *testing.T) {
	t.Parallel()
	const ban = 2 * time.Second
	hq := setup(t, config.TransportEmbedded, []string{"A001"}, func(cfg *config.Config) {
		cfg.Broker.Limits.FlappingConnects, cfg.Broker.Limits.FlappingBan = 3, ban
	})
	tech := hq.technician("alice")
	if err := tech.conn.Subscribe(t.Context(), hq.topics.Root()+"/alarms/#"); err != nil {
		t.Fatal(err)
	}
	alarm := func(recovered bool) (a protocol.Alarm) {
		tech.await(fmt.Sprintf("the alarm with recovered %t", recovered), func(m fleet.Message) bool {
			return m.Topic == hq.topics.Alarm(protocol.SeverityWarning, "client_banned") &&
				protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &a) == nil && a.Recovered == recovered
		})
		return a
	}
	began := time.Now()
	for n := range 6 {
		conn, err := fleet.Dial(t.Context(), hq.addr, fleet.Login{User: "A001/pos1"}, func(fleet.Message) {})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != (n < 3) {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	said := alarm(false)
	named, rest, _ := strings.Cut(said.Message, ": it connected again and again, so the broker keeps it out until ")
	until, _, _ := strings.Cut(rest, ": ")
	end, err := time.Parse("2006-01-02 15:04:05 -07:00", until)
	if named != "A001/pos1" || err != nil || end.Before(began.Add(ban-time.Second)) || end.After(time.Now().Add(ban)) {
		t.Errorf("the alarm says %q: %v", said.Message, err)
	}
	if said.MessageZh != "A001/pos1：反复连接，被代理暂时拒绝：到 "+until+" 为止" {
		t.Errorf("in Chinese the alarm says %q", said.MessageZh)
	}
	if got := hq.troubles(); len(got) != 1 || got[0] != "client_banned: "+said.Message {
		t.Errorf("health says %q", got)
	}
	if a := alarm(true); a.Message != "A001/pos1: it is over" {
		t.Errorf("its end is told as %q", a.Message)
	}
	if got := hq.troubles(); len(got) != 0 {
		t.Errorf("health says %q when it is over", got)
	}
	hq.terminal("A001", fleet.Options{})
	hq.stop() // no end of a ban is waited for
}
