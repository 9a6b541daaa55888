package measure_test

import (
	"strings"
	"testing"
	"time"

	"muster/dispatcher/app/internal/measure"
	"muster/dispatcher/internal/metrics"
	"muster/internal/protocol"
)

func TestAlarmsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	m := measure.New(time.Time{})
	for i := range 26 {
		m.Alarm([]protocol.Severity{protocol.SeverityWarning, protocol.SeverityCritical}[i%2], string(rune('z'-i)))
	}
	var page metrics.Page
	page.Counter("a", "A.", m.Raised()...)
	var order strings.Builder
	for line := range strings.Lines(string(page.Bytes())) {
		if _, kind, found := strings.Cut(line, `kind="`); found {
			order.WriteString(kind[:1])
		}
	}
	if want := "acegikmoqsuwybdfhjlnprtvxz"; order.String() != want {
		t.Errorf("the alarms stand as %s, want %s", &order, want)
	}
}
