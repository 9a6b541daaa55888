package server_test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
	"muster/internal/trust"
)

func TestRevokedCertificateIsRefusedAtConnect(t *testing.T) {
	a := newAuthority(t)
	bad, good, bob := a.terminal("0001", "pos1"), a.terminal("0001", "pos1"), a.user("bob")
	a.revoke(bad, bob)
	s := start(t, a.config("users:\n  - {name: bob, role: technician, certificate: true}\n"), server.Options{})
	if _, code, reason := a.answer(s, login{id: "0001/pos1"}, bad); code != 0x87 || reason != "the certificate is revoked" {
		t.Errorf("revoked terminal: 0x%02x %q", code, reason)
	}
	if _, code, reason := a.answer(s, login{id: "laptop"}, bob); code != 0x87 || reason != "the certificate is revoked" {
		t.Errorf("revoked user: 0x%02x %q", code, reason)
	}
	if _, code, reason := a.answer(s, login{id: "0001/pos1"}, good); code != 0 {
		t.Errorf("its newer certificate: 0x%02x %q", code, reason)
	}
}

// TestRevocationEndsLiveSessionsWithinFiveSeconds runs on the real clock: the
// broker is told nothing, it finds the new list by itself.
func TestRevocationEndsLiveSessionsWithinFiveSeconds(t *testing.T) {
	a := newAuthority(t)
	bad, good := a.terminal("0001", "pos1"), a.terminal("0001", "pos2")
	a.revoke()
	events, opts := newSessions()
	s := start(t, a.config("users: []\n"), opts)
	cut, _, _ := a.answer(s, login{id: "0001/pos1"}, bad)
	online := events.next(t, "pos1", true)
	kept, _, _ := a.answer(s, login{id: "0001/pos2"}, good)
	events.next(t, "pos2", true)
	begin := time.Now()
	a.revoke(bad)
	receive(t, cut.down)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("after %v", took)
	}
	if cut.goodbye != 0x87 {
		t.Errorf("goodbye with 0x%02x", cut.goodbye)
	}
	if offline := events.next(t, "pos1", false); offline != online {
		t.Errorf("session %s ended, not %s", offline, online)
	}
	if code := kept.subscribe(root + "/info"); code != 1 {
		t.Errorf("another terminal: 0x%02x", code)
	}
	if _, code, _ := a.answer(s, login{id: "0001/pos1"}, bad); code != 0x87 {
		t.Errorf("coming back: 0x%02x", code)
	}
}

// TestListThatTurnsBadChangesNothing: neither does it let a revoked terminal in
// again, nor shut everybody out.
func TestListThatTurnsBadChangesNothing(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	bad, good := a.terminal("0001", "pos1"), a.terminal("0001", "pos2")
	a.revoke(bad)
	stranger.revoke()
	foreign, err := os.ReadFile(stranger.path("crl.pem"))
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	s := start(t, a.config("users: []\n"), server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for name, spoil := range map[string]func(){
		"gone":          func() { _ = os.Remove(a.path("crl.pem")) },
		"empty":         func() { a.put("crl.pem", nil) },
		"cut short":     func() { a.revoke(bad); a.cut("crl.pem") },
		"of a stranger": func() { a.put("crl.pem", foreign) },
	} {
		a.revoke(bad)
		s.LookAgain()
		before := strings.Count(log.String(), "the last good one stays")
		spoil()
		for range 3 {
			s.LookAgain()
		}
		if told := strings.Count(log.String(), "the last good one stays") - before; told != 1 {
			t.Errorf("%s: told %d times", name, told)
		}
		if _, code, _ := a.answer(s, login{id: "0001/pos1"}, bad); code != 0x87 {
			t.Errorf("%s: the revoked one: 0x%02x", name, code)
		}
		if _, code, _ := a.answer(s, login{id: "0001/pos2"}, good); code != 0 {
			t.Errorf("%s: another: 0x%02x", name, code)
		}
	}
	a.revoke() // a good list again, which forgives
	s.LookAgain()
	if _, code, _ := a.answer(s, login{id: "0001/pos1"}, bad); code != 0 {
		t.Errorf("after a good list: 0x%02x", code)
	}
}

// TestAnOlderListForgivesNobody: each list of the authority is genuine for ever,
// and an old one, put back by a backup or by a thief, knows less.
func TestAnOlderListForgivesNobody(t *testing.T) {
	a := newAuthority(t)
	bad, good := a.terminal("0001", "pos1"), a.terminal("0001", "pos2")
	a.revoke()
	old, err := os.ReadFile(a.path("crl.pem"))
	if err != nil {
		t.Fatal(err)
	}
	a.revoke(bad)
	var log lockedBuffer
	s := start(t, a.config("users: []\n"), server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a.put("crl.pem", old)
	for range 3 {
		s.LookAgain()
	}
	if _, code, _ := a.answer(s, login{id: "0001/pos1"}, bad); code != 0x87 {
		t.Errorf("the revoked one: 0x%02x", code)
	}
	if n := strings.Count(log.String(), "is older (number 1) than the one in use (number 2)"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
	a.revoke(bad, good) // the next one counts again
	s.LookAgain()
	if _, code, _ := a.answer(s, login{id: "0001/pos2"}, good); code != 0x87 {
		t.Errorf("revoked by the newest: 0x%02x", code)
	}
	a.put("crl.pem", old)
	again := start(t, a.config("users: []\n"), server.Options{})
	if _, code, _ := a.answer(again, login{id: "0001/pos2"}, good); code != 0 {
		t.Errorf("a start takes any genuine list: 0x%02x", code)
	}
}

// TestAListThatIsLeftOutForgivesNobody: with two authorities, each has a list.
func TestAListThatIsLeftOutForgivesNobody(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	bad := other.terminal("0001", "pos1")
	a.revoke()
	other.revoke(bad)
	var files [2][]byte
	for i, name := range []string{"ca.crt", "crl.pem"} {
		for _, from := range []*authority{a, other} {
			text, err := os.ReadFile(from.path(name))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = append(files[i], text...)
		}
		a.put(name, files[i])
	}
	var log lockedBuffer
	s := start(t, a.config("users: []\n"), server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a.revoke() // its list alone
	s.LookAgain()
	if _, code, _ := a.answer(s, login{id: "0001/pos1"}, bad); code != 0x87 {
		t.Errorf("0x%02x", code)
	}
	if !strings.Contains(log.String(), "the list of an authority is missing") {
		t.Errorf("told: %s", log.String())
	}
}

func TestListInDERIsRead(t *testing.T) {
	a := newAuthority(t)
	bad := a.terminal("0001", "pos1")
	a.revoke(bad)
	text, err := os.ReadFile(a.path("crl.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	a.put("crl.pem", block.Bytes)
	s := start(t, a.config("users: []\n"), server.Options{})
	if _, code, _ := a.answer(s, login{id: "0001/pos1"}, bad); code != 0x87 {
		t.Errorf("0x%02x", code)
	}
}

// TestExpiredCertificateEndsItsSession: a session must not outlive what let it
// in.
func TestExpiredCertificateEndsItsSession(t *testing.T) {
	a := newAuthority(t)
	s := start(t, a.config("users: []\n"), server.Options{})
	short := a.issue(time.Now().Add(2*time.Second), trust.Holder{Store: "0001", Terminal: "pos1"}.URI())
	c, code, reason := a.answer(s, login{id: "0001/pos1"}, short)
	if code != 0 {
		t.Fatalf("0x%02x %s", code, reason)
	}
	receive(t, c.down)
	if c.goodbye != 0x87 {
		t.Errorf("goodbye with 0x%02x", c.goodbye)
	}
}

// served is the serial number of the certificate that the broker shows.
func (a *authority) served(s *server.Server) []byte {
	a.t.Helper()
	conn := a.dial(s)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Bytes()
}

func TestRenewedCertificateIsServedWithoutARestart(t *testing.T) {
	a := newAuthority(t)
	var log lockedBuffer
	s := start(t, a.config("users: []\n"), server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	live, _, _ := a.answer(s, login{id: "0001/pos1"}, a.terminal("0001", "pos1"))
	first := a.served(s)
	renewed := a.serve().Bytes()
	eventually(t, "the new certificate is served", func() bool { return bytes.Equal(a.served(s), renewed) })
	if bytes.Equal(first, renewed) {
		t.Error("it was served before it was there")
	}
	// Half a renewal: the key of another certificate. What was good stays.
	key, err := os.ReadFile(a.path("broker.key"))
	if err != nil {
		t.Fatal(err)
	}
	a.serve()
	a.put("broker.key", key)
	for range 3 {
		s.LookAgain()
	}
	if !bytes.Equal(a.served(s), renewed) {
		t.Error("a certificate without its key is served")
	}
	if n := strings.Count(log.String(), "the old one stays"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if code := live.subscribe(root + "/info"); code != 1 {
		t.Errorf("the live session was disturbed: 0x%02x", code)
	}
}

// TestResumedHandshakeDoesNotPassRevocation: a TLS session ticket brings the old
// certificate along, without showing it again.
func TestResumedHandshakeDoesNotPassRevocation(t *testing.T) {
	a := newAuthority(t)
	bad := a.terminal("0001", "pos1")
	a.revoke()
	s := start(t, a.config("users: []\n"), server.Options{})
	a.tickets = tls.NewLRUClientSessionCache(1)
	c, code, _ := a.answer(s, login{id: "0001/pos1"}, bad)
	if code != 0 || c.subscribe(root+"/info") != 1 { // by then a ticket has come
		t.Fatalf("0x%02x", code)
	}
	_ = c.Disconnect(&paho.Disconnect{})
	a.revoke(bad)
	s.LookAgain()
	if _, code, reason := a.answer(s, login{id: "0001/pos1"}, bad); code != 0x87 || !a.resumed {
		t.Errorf("0x%02x %q, resumed %v", code, reason, a.resumed)
	}
}
