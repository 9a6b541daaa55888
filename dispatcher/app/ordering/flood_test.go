package ordering_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
)

// Whoever sends far too much gets an answer each time, and a line a minute.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := setup(t, func(c *trigger.Config) {
		c.Rate, c.Burst = rate.Every(time.Hour), 1
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	flood := func() {
		for i := range 500 {
			d.ask(protocol.VerbRun, fmt.Sprintf(`{"job":"collect_log","stores":%q}`, strings.Repeat("x", i)))
			if i%2 == 0 { // in another's name: it pays for that itself
				sent := d.say("li", protocol.VerbRun, transport.Inbound{Payload: []byte("{}"), User: "wang"})
				if len(sent) != 1 {
					t.Fatalf("%d replies", len(sent))
				}
			}
			d.say("retained", protocol.VerbRun, transport.Inbound{Payload: []byte("{}"), Retained: true})
		}
	}
	flood()
	first := strings.Count(log.String(), "\n")
	if first > 4 || d.trigger.Refused() != 1250 {
		t.Errorf("%d lines, %d refused: %.2000s", first, d.trigger.Refused(), log.String())
	}
	d.pass(time.Minute)
	flood()
	if got := strings.Count(log.String(), "\n"); got > 2*first || !strings.Contains(log.String(), "left_out=748") {
		t.Errorf("%d lines after %d: %.2000s", got, first, log.String())
	}
}
