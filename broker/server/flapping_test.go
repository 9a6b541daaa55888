package server_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/broker/server"
)

func TestFlappingClientIsBannedForAWhile(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.FlappingConnects, cfg.Limits.FlappingBan = 3, 2*time.Second
	var log lockedBuffer
	bans := make(chan server.Ban, 16)
	s := start(t, cfg, server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Banned: func(b server.Ban) { bans <- b }})
	// Two agents with one identity: each pushes the other out and comes back.
	for n := range 3 {
		if _, ack, err := tryConnect(t, s, as("0001/pos1")); err != nil {
			t.Fatalf("connection %d: %+v %v", n, ack, err)
		}
	}
	last := time.Now()
	for range 4 {
		_, ack, err := tryConnect(t, s, as("0001/pos1"))
		if err == nil || ack.ReasonCode != 0x8a || !strings.Contains(ack.Properties.ReasonString, "two clients with one identity") {
			t.Fatalf("%+v %v", ack, err)
		}
	}
	old := dial(t, s) // 3.1.1 knows "server unavailable" as 3
	old.send(frame(0x10, str("MQTT"), []byte{4, 0x82, 0, 60}, str("0001/pos1"), str("0001/pos1")))
	if _, body := old.read(); body[1] != 3 {
		t.Errorf("3.1.1: % x", body)
	}
	if s.Connected() != 1 {
		t.Errorf("%d are connected, not the one that came last", s.Connected())
	}
	connect(t, s, as("0001/pos2"))
	connect(t, s, login{user: "olga", id: "x", clean: true})
	for range 10 { // an id that the broker makes up is new each time
		connect(t, s, login{user: "olga", clean: true})
	}
	if n := strings.Count(log.String(), "client_id=0001/pos1"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
	if n, b := len(bans), <-bans; n != 1 || b != (server.Ban{User: "0001/pos1", ClientID: "0001/pos1", For: 2 * time.Second}) {
		t.Errorf("%d bans are told, the first is %+v", n, b)
	}
	eventually(t, "the ban ends", func() bool {
		_, _, err := tryConnect(t, s, as("0001/pos1"))
		return err == nil
	})
	if took := time.Since(last); took < 2*time.Second {
		t.Errorf("it ended after %v", took)
	}
}

// TestABanStandsWhoeverIsToldOfIt: what is told may panic.
func TestABanStandsWhoeverIsToldOfIt(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.FlappingConnects = 1
	s := start(t, cfg, server.Options{Banned: func(server.Ban) { panic("nobody listens") }})
	connect(t, s, as("0001/pos1"))
	if _, ack, err := tryConnect(t, s, as("0001/pos1")); err == nil || ack.ReasonCode != 0x8a {
		t.Fatalf("%+v %v", ack, err)
	}
	connect(t, s, as("0001/pos2"))
}

// TestFailedLoginsDoNotBanTheOwner: only who has proven to be somebody counts,
// else anybody could shut a terminal out by its name.
func TestFailedLoginsDoNotBanTheOwner(t *testing.T) {
	cfg := withUsers(t)
	cfg.Limits.FlappingConnects = 1
	s := start(t, cfg, server.Options{})
	for range 5 {
		if _, ack, err := tryConnect(t, s, login{user: "0001/pos1", password: "wrong", id: "0001/pos1"}); err == nil || ack.ReasonCode != 0x86 {
			t.Fatalf("%+v %v", ack, err)
		}
	}
	connect(t, s, login{user: "0001/pos1", password: "terminal-secret", id: "0001/pos1", clean: true})
}

func TestFailedLoginsLockTheNameAndAreLoggedOnce(t *testing.T) {
	var log lockedBuffer
	s := start(t, withUsers(t), server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 10 {
		if _, ack, err := tryConnect(t, s, login{user: "alice", password: "guess", id: "x"}); err == nil || ack.ReasonCode != 0x86 {
			t.Fatalf("%+v %v", ack, err)
		}
	}
	for range 5 {
		if _, ack, err := tryConnect(t, s, login{user: "alice", password: "wonderland", id: "x"}); err == nil || ack.ReasonCode != 0x8a ||
			!strings.Contains(ack.Properties.ReasonString, "too many failed logins") {
			t.Errorf("%+v %v", ack, err)
		}
	}
	if n := strings.Count(log.String(), "too many failed logins"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
	connect(t, s, login{user: "hq", password: "dispatcher-secret", id: "y", clean: true})
}
