package server_test

import (
	"sync/atomic"
	"testing"
	"time"

	"muster/broker/server"
)

// TestCertificatesAreJudgedByTheClockThatIsKept: at the handshake, and in sessions
// that live on, also after a look at them that panicked.
func TestCertificatesAreJudgedByTheClockThatIsKept(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	events, opts := newSessions()
	var off atomic.Int64
	var broken atomic.Bool
	opts.Now = func() time.Time {
		if broken.CompareAndSwap(true, false) {
			panic("a clock that cannot be read")
		}
		return time.Now().Add(time.Duration(off.Load()))
	}
	s, err := server.New(a.config("users: []\n"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(t.Context()) })
	cert := a.terminal("0001", "pos1")
	if _, code, reason := a.answer(s, as("0001/pos1"), cert); code != 0 {
		t.Fatalf("0x%02x %s", code, reason)
	}
	events.next(t, "pos1", true)
	broken.Store(true) // one look that panics: the next one ends the session
	off.Store(int64(2 * time.Hour))
	events.next(t, "pos1", false)
	conn := a.dial(s, cert)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("an ended certificate shook hands")
	}
	off.Store(0)
	if _, code, reason := a.answer(s, as("0001/pos1"), cert); code != 0 {
		t.Errorf("set right: 0x%02x %s", code, reason)
	}
}

// TestEndedCertificatesAreNamedInTheOrderOfTheListeners: a warning is read beside the one
// of yesterday.
func TestEndedCertificatesAreNamedInTheOrderOfTheListeners(t *testing.T) {
	t.Parallel()
	cfg := newAuthority(t).config("users: []\n")
	cfg.Listeners.WS = cfg.Listeners.TLS
	if ended := cfg.Ended(time.Now()); len(ended) > 0 {
		t.Errorf("now: %v", ended)
	}
	for range 50 {
		ended := cfg.Ended(time.Now().AddDate(100, 0, 0))
		if len(ended) != 2 || ended[0].Key != "listeners.tls.cert_file" || ended[1].Key != "listeners.ws.cert_file" {
			t.Fatalf("in a hundred years: %v", ended)
		}
	}
}
