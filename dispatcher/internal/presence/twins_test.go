package presence_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/steptest"
	"muster/internal/protocol"
)

// watched is a desk that keeps its alarms.
func watched(t testing.TB) (d *desk, alarms func() []string) {
	d = &desk{t: t, Bench: steptest.New(t)}
	var mu sync.Mutex
	var told []string
	d.Presence = presence.New(presence.Config{Terminals: d.Store, Tasks: d.Store, Sender: d.Sender,
		Republish: func(string) {}, Announce: true, Now: d.now, Logger: d.Logger,
		Alarm: func(kind, subject string, trouble error) {
			mu.Lock()
			defer mu.Unlock()
			if worded, ok := errors.AsType[*alarm.Trouble](trouble); trouble != nil && (!ok || worded.Zh == "") {
				t.Errorf("%s of %s is told in English alone: %v", kind, subject, trouble)
			}
			told = append(told, fmt.Sprintf("%s %s: %v", kind, subject, trouble))
		}})
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Presence.Stop)
	return d, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
}

// TestTwoMachinesWithOneIdentityAreTold: only a process that comes back after it
// was replaced shows them; and it is told when the second is gone.
func TestTwoMachinesWithOneIdentityAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, alarms := watched(t)
		say := func(instances ...string) {
			for _, instance := range instances {
				d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}, Instance: instance})
				time.Sleep(time.Minute)
			}
			synctest.Wait()
		}
		say("", "A", "A", "", "B", "B", "C", "D") // an old agent, reconnects and restarts
		if len(alarms()) != 0 {
			t.Fatalf("without a second machine: %q", alarms())
		}
		say("E", "D")
		if len(alarms()) != 1 || !strings.HasPrefix(alarms()[0], "duplicate_terminal S000/pos: two machines speak as this terminal") ||
			!strings.Contains(alarms()[0], "stop the one that does not belong there; then revoke the terminal, and enrol") {
			t.Fatalf("alarms %q", alarms())
		}
		for range 10 { // 20 minutes
			say("E", "D")
		}
		if n := len(alarms()); n < 2 || n > 3 {
			t.Errorf("%d alarms in 20 minutes: %q", n, alarms())
		}
		told := len(alarms())
		say("D", "D")
		time.Sleep(14 * time.Minute)
		synctest.Wait()
		if got := alarms()[told:]; len(got) != 1 || got[0] != "duplicate_terminal S000/pos: <nil>" {
			t.Errorf("when the second was gone: %q", got)
		}
		say("F")
		time.Sleep(time.Hour)
		if got := alarms()[told+1:]; len(got) != 0 {
			t.Errorf("and then: %q", got)
		}
	})
}

// TestAStepOfTheTimeEndsNoAlarm sooner or later than the second machine is gone.
func TestAStepOfTheTimeEndsNoAlarm(t *testing.T) {
	for _, by := range []time.Duration{26 * time.Hour, -26 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			d, alarms := watched(t)
			for _, instance := range []string{"A", "B", "A"} {
				d.hello(protocol.Hello{Meta: protocol.Meta{ID: "h"}, Instance: instance})
			}
			d.off.Add(int64(by))
			time.Sleep(14 * time.Minute)
			synctest.Wait()
			if len(alarms()) != 1 {
				t.Errorf("by %s: alarms %q after 14 minutes", by, alarms())
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if len(alarms()) != 2 {
				t.Errorf("by %s: alarms %q after 16 minutes", by, alarms())
			}
		})
	}
}
