package alert_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/broker/server"
	"muster/dispatcher/app/internal/alert"
	"muster/dispatcher/app/internal/measure"
	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/steptest"
)

// TestABanIsToldInTheZoneOfThePeople who read of it.
func TestABanIsToldInTheZoneOfThePeople(t *testing.T) {
	t.Parallel()
	bench, now := steptest.New(t), time.Date(2026, 9, 17, 7, 30, 12, 0, time.UTC)
	book, err := alarm.Open(filepath.Join(t.TempDir(), "alarms.json"))
	if err != nil {
		t.Fatal(err)
	}
	a := alert.Alerts{Sender: bench.Sender, Book: book, Meter: measure.New(now), Logger: bench.Logger,
		Now: func() time.Time { return now }, Zone: time.FixedZone("Asia/Shanghai", 8*3600)}
	a.Banned(server.Ban{User: "007/pos1", ClientID: "007/pos1", For: time.Hour})
	a.Stop()
	sent := bench.Broker.Sent()
	if len(sent) != 1 || !strings.Contains(string(sent[0].Payload), "keeps it out until 2026-09-17 16:30:12 +08:00: ") {
		t.Errorf("told %+v", sent)
	}
}

// TestTheNewestBanSaysWhenItIsOver, of each subject by itself, and none once stopped.
func TestTheNewestBanSaysWhenItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var b alert.Bans
		var over []string
		end := func(subject string) {
			b.End(subject, time.Minute, func() { over = append(over, subject+" "+time.Since(began).String()) })
		}
		end("a")
		end("b")
		time.Sleep(40 * time.Second)
		end("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		end("c")
		b.Stop()
		b.Stop()
		end("d")
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"b 1m0s", "a 1m40s"}; !slices.Equal(over, want) {
			t.Errorf("over: %v, want %v", over, want)
		}
	})
}
