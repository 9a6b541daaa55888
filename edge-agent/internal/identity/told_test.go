package identity_test

import (
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// TestTheAgeOfACertificateIsCountedByHeadquartersTime as soon as it has proven what
// time it is, and by nobody else's word.
func TestTheAgeOfACertificateIsCountedByHeadquartersTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hq, other := hqtest.New(t), hqtest.New(t)
		id := open(t, hq.Enrolled("007", "pos-1"))
		wall, now := time.Unix(100, 0), time.Now()
		say := func(by *trust.Signer, at time.Time) {
			payload, err := protocol.Encode(protocol.Order{Meta: protocol.Meta{ID: "1", At: protocol.At(at), Seq: 1}, Order: protocol.OrderSync})
			if err != nil {
				t.Fatal(err)
			}
			signature := trust.Signature{}
			if by != nil {
				signature = by.Sign("orders", payload)
			}
			id.Hear("orders", payload, signature)
		}
		over, listed := hq.NewKey(now.Add(-2*time.Hour), now.Add(-time.Hour))
		if _, err := id.Take(seal(t, hq.Seal(2, hq.Listed, listed))); err != nil {
			t.Fatal(err)
		}
		say(nil, now)
		say(other.Key, now)
		say(over, now)
		id.Hear("orders", []byte("{"), hq.Key.Sign("orders", []byte("{")))
		moved := []byte(`{"id":"1","at":"` + now.Format(time.RFC3339) + `","seq":1}`)
		id.Hear("orders", moved, hq.Key.Sign("others", moved))
		if got := id.Now(wall); !got.Equal(wall) {
			t.Fatalf("%s by the word of nobody", got)
		}
		say(hq.Key, now)
		time.Sleep(time.Hour)
		if got := id.Now(wall); !got.Equal(now.Add(time.Hour)) {
			t.Errorf("an hour later it is %s", got)
		}
		say(hq.Key, now) // held back
		if got := id.Now(wall); !got.Equal(now.Add(time.Hour)) {
			t.Errorf("an old message makes it %s", got)
		}
		say(hq.Key, now.Add(3*time.Hour)) // the machine was suspended
		if got := id.Now(wall); !got.Equal(now.Add(3 * time.Hour)) {
			t.Errorf("a new one makes it %s", got)
		}
	})
}

// TestWhatTheClockKeepsFromConnectingIsSaid: what is wrong, by which clock, what to
// do; and that it is well again when the clock is set right.
func TestWhatTheClockKeepsFromConnectingIsSaid(t *testing.T) {
	t.Parallel()
	hq := hqtest.New(t)
	folder := hq.Enrolled("007", "pos-1")
	id, now := open(t, folder), time.Now()
	server := hq.Server(now.Add(-time.Hour), now.Add(time.Hour))
	err := handshake(t, id, now.AddDate(3, 0, 0), server, "127.0.0.1")
	for _, words := range []string{"it is valid from " + now.Add(-time.Hour).UTC().Format(time.RFC3339), "this terminal's clock shows: set the clock, and the connection comes back by itself"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("years ahead: %v, want %q", err, words)
		}
	}
	if err := handshake(t, id, now, server, "127.0.0.1"); err != nil {
		t.Errorf("set right: %v", err)
	}
	err = handshake(t, id, now.AddDate(-50, 0, 0), hq.Server(now.Add(-2*time.Hour), now.Add(-time.Minute)), "127.0.0.1")
	if err == nil || !strings.Contains(err.Error(), "headquarters has signed later than that") {
		t.Errorf("an old server by a dead clock: %v", err)
	}
	_, err = identity.Open(folder, "007", "pos-1", now.AddDate(3, 0, 0))
	if !errors.Is(err, identity.ErrEnded) || !strings.Contains(err.Error(), "this terminal's clock shows "+now.AddDate(3, 0, 0).Format(time.RFC3339)+": set it") {
		t.Errorf("at the start: %v", err)
	}
}

// TestADeadClockOpensACertificateThatBeginsBeforeItsAuthority: headquarters' clock
// stood before the day on which the authority was made.
func TestADeadClockOpensACertificateThatBeginsBeforeItsAuthority(t *testing.T) {
	t.Parallel()
	hq, now := hqtest.New(t), time.Now()
	parts := hq.Parts("007", "pos-1")
	public, _ := parts.Key.Public().(ed25519.PublicKey)
	parts.Certificate = hq.Issue(public, holder, now.AddDate(0, 0, -80), now.AddDate(0, 0, 10))
	for _, clock := range []time.Time{time.Unix(100, 0), now} {
		folder := filepath.Join(t.TempDir(), "identity")
		if _, err := identity.Create(folder, parts, clock); err != nil {
			t.Fatal(err)
		}
		id, err := identity.Open(folder, "007", "pos-1", clock)
		if err != nil {
			t.Fatal(err)
		}
		if err := handshake(t, id, clock, hq.Server(now.AddDate(0, 0, -80), now.AddDate(0, 0, 10)), "127.0.0.1"); err != nil {
			t.Errorf("at %s: %v", clock, err)
		}
	}
}
