package enrol_test

import (
	"crypto/x509"
	"testing"
	"time"

	"muster/edge-agent/internal/enrol"
)

// TestACertificateIsRenewedInTimeWhateverTheClock: one whose battery is dead
// begins in 1970 with each start, and would never reach the day.
func TestACertificateIsRenewedInTimeWhateverTheClock(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	began := time.Date(2026, 9, 18, 0, 0, 0, 0, time.UTC)
	leaf := &x509.Certificate{NotBefore: began, NotAfter: began.Add(90 * day)}
	dead := time.Unix(100, 0)
	for name, tc := range map[string]struct {
		due      time.Time
		earliest time.Time
		spread   time.Duration
	}{
		"at the start":                    {enrol.FirstRenewal(leaf, began.Add(day)), began.Add(60 * day), 2 * day},
		"at the start, late":              {enrol.FirstRenewal(leaf, began.Add(80*day)), began.Add(60 * day), 2 * day},
		"at the start, the clock dead":    {enrol.FirstRenewal(leaf, dead), dead, 0},
		"after a renewal":                 {enrol.NextRenewal(leaf, began.Add(time.Minute)), began.Add(60 * day), 2 * day},
		"after a renewal, the clock dead": {enrol.NextRenewal(leaf, dead), dead.Add(60 * day), 2 * day},
	} {
		if late := tc.due.Sub(tc.earliest); late < 0 || late > tc.spread {
			t.Errorf("%s: due at %s", name, tc.due)
		}
	}
}
