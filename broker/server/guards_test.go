package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
)

// sessions collects what the broker reports.
type sessions chan server.Session

func (s sessions) next(t *testing.T, terminal string, online bool) string {
	t.Helper()
	got := receive(t, s)
	if got.TerminalID != terminal || got.Online != online || got.StoreID != "0001" || got.SessionID == "" || got.At.IsZero() {
		t.Fatalf("got %+v, want %s online=%v", got, terminal, online)
	}
	return got.SessionID
}

func newSessions() (sessions, server.Options) {
	s := make(sessions, 1_000)
	return s, server.Options{ManagedPresence: true, Session: func(v server.Session) { s <- v }}
}

func TestMalformedPacketsEndOnlyTheirConnection(t *testing.T) {
	events, opts := newSessions()
	s := start(t, anonymous(), opts)
	witness := connect(t, s, as("olga"))
	for name, bad := range map[string][]byte{
		"SUBSCRIBE without options": frame(0x82, []byte{0, 1, 0}, str(root+"/info")),
		"SUBSCRIBE cut short":       frame(0x82, []byte{0, 1}),
		"UNSUBSCRIBE cut short":     frame(0xa2, []byte{0, 1, 0, 0, 9, 'a'}),
		"PUBLISH cut short":         frame(0x32, []byte{0, 99, 'a'}),
		"PUBLISH property beyond":   frame(0x30, str("a"), []byte{1, 0x02, 0, 0, 0, 9}),
		"second CONNECT":            frame(0x10, str("MQTT"), []byte{5, 2, 0, 60, 0}, str("x")),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s)
			if code := c.login(5, "0001/pos1", "0001/pos1"); code != 0 {
				t.Fatalf("CONNACK 0x%02x", code)
			}
			events.next(t, "pos1", true)
			c.send(bad)
			if reason := c.closed(); reason != 0x81 && reason != 0x82 {
				t.Errorf("told 0x%02x", reason)
			}
			events.next(t, "pos1", false)
			if code := witness.subscribe(root + "/info"); code != 1 {
				t.Errorf("another client: 0x%02x", code)
			}
		})
	}
	early := dial(t, s)
	early.send(frame(0x10, str("MQTT"), []byte{5, 0xc2, 0, 60, 0}, str("x"))) // promises a name
	early.closed()
}

func TestPanicInTheLibraryEndsOnlyItsConnection(t *testing.T) {
	events, opts := newSessions()
	s := start(t, anonymous(), opts)
	topic := root + "/stores/0001/terminals/pos1/claim"
	if err := s.PanicOnTopic(topic); err != nil {
		t.Fatal(err)
	}
	pos := connect(t, s, as("0001/pos1"))
	online := events.next(t, "pos1", true)
	pos.subscribe(root + "/stores/0001/tasks/+")
	_, _ = pos.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("x")})
	receive(t, pos.down)
	if offline := events.next(t, "pos1", false); offline != online {
		t.Errorf("session %s ended, not %s", offline, online)
	}
	if s.Known("0001/pos1") || s.Subscriptions() != 0 {
		t.Errorf("left behind: known %v, %d subscriptions", s.Known("0001/pos1"), s.Subscriptions())
	}
	again := connect(t, s, as("0001/pos1"))
	events.next(t, "pos1", true)
	again.subscribe(root + "/stores/0001/tasks/+")
	publish(t, s, root+"/stores/0001/tasks/t1", "offer", false)
	if got := again.next(); string(got.Payload) != "offer" {
		t.Errorf("got %s", got)
	}
}

func publish(t *testing.T, s *server.Server, topic, payload string, retain bool) {
	t.Helper()
	err := s.Publish(t.Context(), server.Outgoing{Topic: topic, Payload: []byte(payload), Retain: retain})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSilentConnectionIsClosed(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.ConnectDeadline = 150 * time.Millisecond
	s := start(t, cfg, server.Options{})
	silent := dial(t, s)
	slow := dial(t, s)
	slow.send([]byte{0x10, 0x20, 0, 4, 'M'})
	begin := time.Now()
	silent.closed()
	slow.closed()
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("closed after %v", took)
	}
}

func TestConnectedClientOutlivesTheConnectDeadline(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.ConnectDeadline = 150 * time.Millisecond
	s := start(t, cfg, server.Options{})
	c := dial(t, s)
	c.login(5, "olga", "olga")
	_ = c.SetReadDeadline(time.Now().Add(400 * time.Millisecond))
	if _, _, err := c.tryRead(); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %v", err)
	}
}

func TestHugePacketsAreRefused(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.MaxPayloadBytes = 4 << 10
	s := start(t, cfg, server.Options{})
	before := dial(t, s)
	before.send([]byte{0x10, 0xff, 0xff, 0xff, 0x7f})
	before.closed()
	after := dial(t, s)
	after.login(5, "olga", "olga")
	after.send([]byte{0x30, 0xff, 0xff, 0xff, 0x7f})
	if reason := after.closed(); reason != 0x95 {
		t.Errorf("told 0x%02x", reason)
	}
}

func TestStuckReaderHoldsUpNobody(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.WriteDeadline = 2 * time.Second
	cfg.Limits.WriteBufferBytes = 64 << 10
	s := start(t, cfg, server.Options{})
	stuck := dial(t, s)
	stuck.login(5, "stuck", "stuck")
	stuck.send(frame(0x82, []byte{0, 1, 0}, str(root+"/runs/#"), []byte{1}))
	if kind, _ := stuck.read(); kind != 0x90 {
		t.Fatalf("got 0x%02x, not SUBACK", kind)
	}
	reader := connect(t, s, as("reader"))
	reader.subscribe(root + "/runs/#")
	const messages = 600 // of 64 KiB: far more than the sockets hold
	payload := strings.Repeat("x", 64<<10)
	var slowest time.Duration
	for n := range messages {
		begin := time.Now()
		publish(t, s, fmt.Sprintf("%s/runs/r%d/state", root, n), payload, false)
		slowest = max(slowest, time.Since(begin))
		reader.next()
	}
	if slowest > time.Second {
		t.Errorf("a publisher waited %v for a reader that is stuck", slowest)
	}
	eventually(t, "the stuck reader is closed", func() bool { return s.Connected() == 1 })
}

func TestReceiveMaximumIsNeutralised(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	c := dial(t, s)
	c.login(5, "olga", "olga", 0x21, 0, 1) // Receive Maximum 1
	c.send(frame(0x82, []byte{0, 1, 0}, str(root+"/runs/#"), []byte{1}))
	c.read()
	for n := range 5 {
		publish(t, s, fmt.Sprintf("%s/runs/r%d/state", root, n), "x", false)
	}
	for range 5 { // without one acknowledgement
		if kind, _ := c.read(); kind>>4 != 3 {
			t.Fatalf("got 0x%02x", kind)
		}
	}
}

func TestTopicAliasIsOff(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	c := connect(t, s, as("olga"))
	c.subscribe(root + "/req/olga/run")
	bad := dial(t, s)
	bad.login(5, "mallory", "mallory", 0x22, 0, 10) // would take ten aliases
	bad.send(frame(0x82, []byte{0, 1, 0}, str(root+"/runs/#"), []byte{0}))
	bad.read()
	for range 2 { // an alias would leave the second topic empty
		publish(t, s, root+"/runs/r1/state", "x", false)
		if _, body := bad.read(); !bytes.Contains(body, []byte(root)) || bytes.Contains(body, []byte{0x23, 0, 1}) {
			t.Errorf("an alias was used: % x", body)
		}
	}
	bad.send(frame(0x30, str(root+"/req/mallory/run"), []byte{3, 0x23, 0, 1}, []byte("{}")))
	if reason := bad.closed(); reason != 0x94 {
		t.Errorf("told 0x%02x", reason)
	}
}

func TestPacketIDsOfBothDirectionsAreApart(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	c := dial(t, s)
	c.login(5, "olga", "olga", 0x11, 0, 0, 1, 0) // the session outlives the connection
	c.send(frame(0x82, []byte{0, 1, 0}, str(root+"/runs/#"), []byte{1}))
	c.read()
	publish(t, s, root+"/runs/r1/state", "kept", false)
	_, body := c.read() // left unacknowledged
	id := body[2+len(root+"/runs/r1/state"):][:2]
	for name, step := range map[string]struct {
		packet []byte
		kind   byte
		rest   []byte
	}{
		"PUBLISH":     {frame(0x32, str(root+"/req/olga/run"), id, []byte{0}, []byte("{}")), 0x40, nil},
		"SUBSCRIBE":   {frame(0x82, id, []byte{0}, str(root+"/info"), []byte{1}), 0x90, []byte{0, 1}},
		"UNSUBSCRIBE": {frame(0xa2, id, []byte{0}, str(root+"/info")), 0xb0, nil},
	} {
		c.send(step.packet)
		kind, body := c.read()
		if kind != step.kind || !bytes.Equal(body[:2], id) || !bytes.HasSuffix(body, step.rest) {
			t.Errorf("%s with an id in use the other way: 0x%02x % x", name, kind, body)
		}
	}
	qos2 := frame(0x34, str(root+"/req/olga/run"), id, []byte{0}, []byte("{}"))
	for _, step := range []struct {
		packet []byte
		kind   byte
	}{{qos2, 0x50}, {frame(0x62, id), 0x70}} {
		c.send(step.packet)
		if kind, body := c.read(); kind != step.kind || !bytes.Equal(body[:2], id) || len(body) > 2 && body[2] >= 0x80 {
			t.Errorf("QoS 2: 0x%02x % x", kind, body)
		}
	}
	_ = c.Close()
	again := dial(t, s)
	again.send(frame(0x10, str("MQTT"), []byte{5, 0x80, 0, 60, 5, 0x11, 0, 0, 1, 0}, str("olga"), str("olga")))
	if _, body := again.read(); body[0] != 1 {
		t.Fatalf("the session is gone: % x", body)
	}
	if kind, body := again.read(); kind>>4 != 3 || !bytes.HasSuffix(body, []byte("kept")) {
		t.Errorf("the unacknowledged message did not come again: 0x%02x % x", kind, body)
	}
}

func TestPasswordsAndPayloadsAreNotLogged(t *testing.T) {
	var log lockedBuffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	s := start(t, anonymous(), server.Options{Logger: logger,
		Intake: func(context.Context, server.Message) error { return fmt.Errorf("not now") }})
	c := dial(t, s)
	hello := frame(0x10, str("MQTT"), []byte{5, 0xc2, 0, 60, 0}, str("olga"), str("olga"), str("s3cret-word"))
	c.send(hello)
	c.read()
	c.send(frame(0x30, str(root+"/req/olga/run"), []byte{0}, []byte("s3cret-payload")))
	c.send(frame(0x32, str(root+"/req/bob/run"), []byte{0, 1, 0}, []byte("s3cret-payload")))
	c.read()
	c.send(hello) // a second CONNECT
	c.closed()
	connect(t, s, login{user: "oscar", password: "s3cret-word", id: "oscar", clean: true})
	inJSON := base64.StdEncoding.EncodeToString([]byte("s3cret-payload"))
	if got := log.String(); strings.Contains(got, "s3cret") || strings.Contains(got, inJSON) || !strings.Contains(got, "intake did not take") {
		t.Errorf("log: %s", got)
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
