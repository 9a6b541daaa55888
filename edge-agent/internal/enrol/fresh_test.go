package enrol_test

import (
	"context"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/enrol"
	"muster/edge-agent/internal/identity"
	"muster/internal/protocol"
)

const day = 24 * time.Hour

// dead is the clock of a machine whose battery is.
var dead = -time.Since(time.Unix(100, 0))

func off(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Round(0).Add(by) }
}

func TestACertificateIsDueAfterTwoThirdsOfItsLife(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 9, 18, 0, 0, 0, 0, time.UTC)
	leaf := &x509.Certificate{NotBefore: began, NotAfter: began.Add(90 * day)}
	for name, c := range map[string]struct {
		now  time.Time
		late float64
		want time.Duration
	}{
		"young":             {began.Add(day), 0, 59 * day},
		"young, and spread": {began.Add(day), 1, 59*day + 90*day/50},
		"due":               {began.Add(60 * day), 0, 0},
		"late":              {began.Add(80 * day), 0, -20 * day},
		"not yet begun":     {time.Unix(100, 0), 1, 0},
	} {
		if got := enrol.UntilDue(leaf, c.now, c.late); got != c.want {
			t.Errorf("%s: due in %s, want %s", name, got, c.want)
		}
	}
}

// fresh has KeepFresh work on the identity until the test, or what it returns,
// ends it.
func (b *bench) fresh(id *identity.Identity, wall func() time.Time, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		enrol.KeepFresh(ctx, id, wall, log)
	}()
	stop = func() { cancel(); <-done }
	b.t.Cleanup(stop)
	return stop
}

// aged enrols with a certificate that began, and ends, so long before and after
// now, and has whole ones given from then on.
func (b *bench) aged(began, ends time.Duration) *identity.Identity {
	b.t.Helper()
	now := time.Now()
	b.hq.Give(now.Add(-began), now.Add(ends))
	id, err := b.enrol()
	if err != nil {
		b.t.Fatal(err)
	}
	b.hq.Give(now.Add(-time.Hour), now.Add(90*day))
	return id
}

// hear has headquarters say that it is now.
func (b *bench) hear(id *identity.Identity) {
	b.t.Helper()
	payload, err := protocol.Encode(protocol.Order{Meta: protocol.Meta{ID: "1", At: protocol.At(time.Now()), Seq: 1}, Order: protocol.OrderSync})
	if err != nil {
		b.t.Fatal(err)
	}
	id.Hear("orders", payload, b.hq.Key.Sign("orders", payload))
}

// TestACertificateThatEndsSoonIsRenewedWhateverTheClock of the terminal shows, once.
func TestACertificateThatEndsSoonIsRenewedWhateverTheClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		off   time.Duration
		heard bool
	}{
		"right":            {0, false},
		"a day ahead":      {26 * time.Hour, false},
		"a day behind":     {-26 * time.Hour, false},
		"dead":             {dead, false},
		"too old to tell":  {-60 * day, true},
		"dead, told of it": {dead, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			id := b.aged(85*day, 5*day)
			before := id.Signer().KeyID()
			if c.heard {
				b.hear(id)
			}
			stop := b.fresh(id, off(c.off), slog.New(slog.DiscardHandler))
			for deadline := time.Now().Add(patience); id.Signer().KeyID() == before; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the certificate was not renewed")
				}
			}
			if got := b.open().Signer().KeyID(); got != id.Signer().KeyID() {
				t.Error("a restart has another key")
			}
			stop()
			// A fresh one is left alone, by a clock that shows it to be old as well.
			again, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			enrol.KeepFresh(again, id, off(c.off+70*day), slog.New(slog.DiscardHandler))
			if n := b.hq.Renewed(); n != 1 {
				t.Errorf("renewed %d times", n)
			}
		})
	}
}

// TestAFreshCertificateIsLeftAloneOnceHeadquartersTime is known: a clock that is
// months ahead would renew it at each start.
func TestAFreshCertificateIsLeftAloneOnceHeadquartersTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.aged(day, 89*day)
	b.hear(id)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	enrol.KeepFresh(ctx, id, off(70*day), slog.New(slog.DiscardHandler))
	if n := b.hq.Renewed(); n != 0 {
		t.Errorf("renewed %d times", n)
	}
}

// TestWhatTheClockKeepsFromRenewalIsSaid: which clock, what it shows, what to do.
func TestWhatTheClockKeepsFromRenewalIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.aged(day, 89*day)
	log := &logbook{}
	b.fresh(id, off(3*365*day), slog.New(slog.NewTextHandler(log, nil)))
	log.await(t, "the certificate has ended: set this terminal's clock if it is wrong")
	log.await(t, "the time is what this terminal's clock shows: set the clock, and the connection comes back by itself")
}

// TestATerminalWithADeadClockCanEnrol: the authority of its token dates nothing
// ahead.
func TestATerminalWithADeadClockCanEnrol(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id, err := b.enrol(func(r *enrol.Request) { r.Wall = off(dead) })
	if err != nil {
		t.Fatal(err)
	}
	if got := b.open().Signer().KeyID(); got != id.Signer().KeyID() {
		t.Errorf("key %s is kept", got)
	}
	_, err = newBench(t).enrol(func(r *enrol.Request) { r.Wall = off(3 * 365 * day) })
	if err == nil || !strings.Contains(err.Error(), "this terminal's clock shows") || !strings.Contains(err.Error(), "check the clock") {
		t.Errorf("years ahead: %v", err)
	}
}
