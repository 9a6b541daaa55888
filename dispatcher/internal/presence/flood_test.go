package presence_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// A terminal that sends what cannot be read is told of once a minute, and every
// message counts.
func TestUnreadableMessagesDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "", false)
		d.Presence.Stop()
		var log bytes.Buffer
		d.Presence = presence.New(presence.Config{Terminals: d.Store, Tasks: d.Store, Sender: d.Sender, Now: time.Now,
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		flood := func() {
			for range 1000 {
				in := transport.Inbound{Payload: []byte("no")}
				if err := d.HandlePresence(t.Context(), steptest.From(0, protocol.KindPresence), in); err != nil {
					t.Fatal(err)
				}
				if err := d.HandleHello(t.Context(), steptest.From(1, protocol.KindHello), in); err != nil {
					t.Fatal(err)
				}
			}
		}
		flood()
		time.Sleep(time.Minute)
		flood()
		if got := strings.Count(log.String(), "\n"); got != 4 || d.Malformed() != 4000 || !strings.Contains(log.String(), "left_out=999") {
			t.Errorf("%d lines, %d counted: %s", got, d.Malformed(), log.String())
		}
	})
}
