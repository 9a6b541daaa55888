package grant_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/steptest"
	"muster/internal/protocol"
)

// A terminal that sends what cannot be read is told of once a minute, and every
// message counts.
func TestUnreadableMessagesDoNotFillTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Admission.Stop()
		var log bytes.Buffer
		d.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d.start(wide())
		flood := func() {
			for i := range 1000 {
				in := steptest.Message(nil)
				in.Payload = []byte(strings.Repeat("x", i))
				from := steptest.From(i%2, protocol.KindClaim)
				if err := d.HandleClaim(t.Context(), from, in); err != nil {
					t.Fatal(err)
				}
			}
		}
		flood()
		time.Sleep(time.Minute)
		flood()
		synctest.Wait()
		if got := strings.Count(log.String(), "\n"); got != 4 || d.Stats().Malformed != 2000 {
			t.Errorf("%d lines, %d counted", got, d.Stats().Malformed)
		}
		if !strings.Contains(log.String(), "left_out=499") {
			t.Errorf("nobody learns how many there were: %s", log.String())
		}
	})
}
