package intake_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/steptest"
	"muster/internal/protocol"
)

// A terminal that sends what cannot be read is told of once a minute, and every
// message counts.
func TestUnreadableMessagesDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.Intake.Stop()
		var log bytes.Buffer
		d.Intake = intake.New(intake.Config{Tasks: d.Store, Attempts: d.Store, Jobs: registry(t), Leases: d.leases, Orders: d.Sender,
			Now: time.Now, Logger: slog.New(slog.NewTextHandler(&log, nil)), InFlight: 1, BurstBytes: 1})
		flood := func() {
			for i := range 1000 {
				d.sendRaw(i%2, []byte(strings.Repeat("x", i)))
				in := steptest.Message(nil)
				in.Payload = []byte("{}")
				if err := d.HandleReady(t.Context(), steptest.From(i%2, protocol.KindReady), in); err != nil {
					t.Fatal(err)
				}
			}
		}
		flood()
		time.Sleep(time.Minute)
		flood()
		if got := strings.Count(log.String(), "\n"); got != 4 || d.Stats().Unreadable != 4000 {
			t.Errorf("%d lines, %d counted", got, d.Stats().Unreadable)
		}
		if !strings.Contains(log.String(), "left_out=999") {
			t.Errorf("nobody learns how many there were: %s", log.String())
		}
	})
}
