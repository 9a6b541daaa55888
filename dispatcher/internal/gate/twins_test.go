package gate_test

import (
	"strings"
	"testing"

	"muster/internal/protocol"
)

// TestAMachineThatIsNotHeardIsTold: of two machines with one key the one whose
// clock is behind is mute. One late hello is no sign of it, nor is any other
// message, nor a copy of what was seen just now.
func TestAMachineThatIsNotHeardIsTold(t *testing.T) {
	h := open(t)
	p := h.enrol("S000", "pos", 7)
	const now = 1_000_000
	says := func(kind protocol.Kind, numbers ...int64) {
		t.Helper()
		for _, n := range numbers {
			if through := h.pass(h.says(p, kind, n)); through != (n >= now) {
				t.Errorf("%s %d passes: %t", kind, n, through)
			}
		}
	}
	says(protocol.KindHello, now, 1, 2, now+1, 3, 4, now+2)
	says(protocol.KindClaim, 5, 6, 7, 8, 9)
	h.pass(h.says(p, protocol.KindHello, now))
	h.pass(h.says(p, protocol.KindHello, now))
	h.pass(h.says(p, protocol.KindHello, now))
	if len(h.alarms) != 0 {
		t.Fatalf("alarms %q", h.alarms)
	}
	says(protocol.KindHello, 10, 11, 12, 13)
	if len(h.alarms) != 1 || !strings.HasPrefix(h.alarms[0], "duplicate_terminal S000/pos: its hellos bear numbers that it used long ago") {
		t.Errorf("alarms %q", h.alarms)
	}
}
