package auditor_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/auditor"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// TestAClockSetBackMakesNoOldHeadAFault: a key was struck out, the clock was then set
// back before that, and the key that took its place is listed anew, from 5 minutes
// before the new time. What the struck key signed stands in front as before.
func TestAClockSetBackMakesNoOldHeadAFault(t *testing.T) {
	t.Parallel()
	signer, keys, _ := newSigner(t)
	struck, _, _ := newSigner(t)
	clock := func(hour, minute int) time.Time { return time.Date(2026, 9, 17, hour, minute, 0, 0, time.UTC) }
	keys.Keys[0].NotBefore, keys.Keys[0].NotAfter = protocol.At(clock(9, 55)), protocol.At(clock(20, 0))
	d := setup(t, nil)
	for i, l := range []struct {
		signer               *trust.Signer
		at                   time.Time
		proven, older, wrong int
	}{
		{nil, clock(9, 0), 0, 1, 0},
		{struck, clock(11, 0), 0, 1, 1}, // nobody can tell yet
		{struck, clock(11, 59), 0, 1, 2},
		{signer, clock(12, 0), 1, 1, 2},
		{signer, clock(10, 0), 2, 3, 0}, // after the clock was set back
		{struck, clock(10, 1), 2, 3, 1},
		{signer, clock(12, 1), 3, 3, 1},
	} {
		d.signer, d.Now = l.signer, func() time.Time { return l.at }
		d.audited()
		d.start()
		d.running.Stop()
		if h := d.read(keys); h.Proven != l.proven || h.Unsigned+h.Unproven != l.older || h.Wrong != l.wrong || len(h.Noted) != i+1-l.wrong {
			t.Errorf("line %d: %+v", i+1, h)
		}
	}
	lines := d.lines()
	if h := d.rewritten([]string{lines[1], lines[3], lines[4]}, keys); h.Wrong != 0 {
		t.Errorf("%+v", h)
	}
	if h := d.rewritten([]string{lines[1], lines[6], lines[3]}, keys); h.Wrong != 1 {
		t.Errorf("put in another order, the lines of the key show a step: %+v", h)
	}
}

// rewritten reads lines that somebody put in the place of the file.
func (d *desk) rewritten(lines []string, keys *trust.Document) auditor.Heads {
	d.t.Helper()
	if err := os.WriteFile(d.file(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return d.read(keys)
}
