package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
	"muster/broker/server/users"
)

func withUsers(t *testing.T) server.Config {
	t.Helper()
	hash := func(password string) string {
		h, err := users.HashPassword([]byte(password))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	path := filepath.Join(t.TempDir(), "users.yaml")
	text := "users:\n  - {name: alice, role: technician, password: \"" + hash("wonderland") + "\"}\n" +
		"  - {name: hq, role: dispatcher, password: \"" + hash("dispatcher-secret") + "\"}\n" +
		"terminals:\n  - {store: \"0001\", terminal: pos1, password: \"" + hash("terminal-secret") + "\"}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := anonymous()
	cfg.Anonymous, cfg.UsersFile = false, path
	return cfg
}

func TestLogin(t *testing.T) {
	s := start(t, withUsers(t), server.Options{})
	for name, c := range map[string]struct {
		user, password, id string
		code               byte
	}{
		"technician":             {"alice", "wonderland", "any-id", 0},
		"no client id":           {"alice", "wonderland", "", 0},
		"terminal":               {"0001/pos1", "terminal-secret", "0001/pos1", 0},
		"wrong password":         {"alice", "Wonderland", "any-id", 0x86},
		"no password":            {"alice", "", "any-id", 0x86},
		"other's password":       {"alice", "terminal-secret", "any-id", 0x86},
		"unknown user":           {"mallory", "wonderland", "any-id", 0x86},
		"unknown terminal":       {"0001/pos2", "terminal-secret", "0001/pos2", 0x86},
		"no name":                {"", "", "any-id", 0x86},
		"terminal's id borrowed": {"alice", "wonderland", "0001/pos1", 0x85},
		"terminal under user id": {"0001/pos1", "terminal-secret", "pos1", 0x85},
		"terminal without id":    {"0001/pos1", "terminal-secret", "", 0x85},
		"reserved id":            {"alice", "wonderland", "$headquarters", 0x85},
		"long id":                {"alice", "wonderland", strings.Repeat("x", 200), 0x85},
	} {
		t.Run(name, func(t *testing.T) {
			_, ack, err := tryConnect(t, s, login{user: c.user, password: c.password, id: c.id, clean: true})
			if ack == nil || ack.ReasonCode != c.code || (err != nil) != (c.code != 0) {
				t.Errorf("got %+v, %v, want 0x%02x", ack, err, c.code)
			}
		})
	}
	old := dial(t, s) // 3.1.1 knows "not authorized" as 5
	old.send(frame(0x10, str("MQTT"), []byte{4, 0xc2, 0, 60}, str("x"), str("alice"), str("wrong")))
	if kind, body := old.read(); kind != 0x20 || body[1] != 5 {
		t.Errorf("3.1.1: 0x%02x % x", kind, body)
	}
}

func TestAnonymousNames(t *testing.T) {
	taken := make(chan server.Message, 1)
	s := start(t, anonymous(), server.Options{Intake: func(_ context.Context, m server.Message) error { taken <- m; return nil }})
	for user, role := range map[string]string{"": "operator", "olga": "operator", "dispatcher": "operator"} {
		c := connect(t, s, login{user: user, id: "x" + user, clean: true})
		name := user
		if name == "" {
			name = "anonymous"
		}
		c.say(root+"/req/"+name+"/run", "{}")
		if m := receive(t, taken); m.User != name || m.Role != role {
			t.Errorf("%q is %s with role %s", user, m.User, m.Role)
		}
	}
	for _, bad := range []string{"a/b/c", "/pos1", "0001/", "+", "#", "a b", "0001/#"} {
		if _, ack, err := tryConnect(t, s, login{user: bad, id: "y", clean: true}); err == nil || ack.ReasonCode != 0x86 {
			t.Errorf("%q: %+v %v", bad, ack, err)
		}
	}
}

func TestTakeoverBySameIdentity(t *testing.T) {
	events, opts := newSessions()
	s := start(t, anonymous(), opts)
	first := connect(t, s, as("0001/pos1"))
	a := events.next(t, "pos1", true)
	second := connect(t, s, as("0001/pos1"))
	b := events.next(t, "pos1", true) // no offline in between
	receive(t, first.down)
	if a == b {
		t.Error("two connections are one session")
	}
	second.subscribe(root + "/stores/0001/tasks/+")
	publish(t, s, root+"/stores/0001/tasks/t1", "offer", false)
	if got := second.next(); string(got.Payload) != "offer" {
		t.Errorf("got %s", got)
	}
	_ = second.Disconnect(&paho.Disconnect{})
	if ended := events.next(t, "pos1", false); ended != b {
		t.Errorf("session %s ended, not %s", ended, b)
	}
}

func TestTakeoverStormLeavesOneLiveConnection(t *testing.T) {
	events, opts := newSessions()
	const rounds = 40
	cfg := anonymous()
	cfg.Limits.FlappingConnects = rounds + 1 // else it is banned long before
	s := start(t, cfg, opts)
	connected := make(chan *client, rounds)
	for range rounds {
		go func() {
			c, _, err := tryConnect(t, s, as("0001/pos1"))
			if err != nil {
				c = nil // a newer one came first
			}
			connected <- c
		}()
	}
	for range rounds {
		receive(t, connected)
	}
	last := connect(t, s, as("0001/pos1"))
	last.subscribe(root + "/stores/0001/tasks/+")
	publish(t, s, root+"/stores/0001/tasks/t1", "offer", false)
	if got := last.next(); string(got.Payload) != "offer" {
		t.Errorf("got %s", got)
	}
	_ = last.Disconnect(&paho.Disconnect{})
	online := ""
	for begun := 0; ; {
		e := receive(t, events)
		if e.Online {
			begun++
			online = e.SessionID
			continue
		}
		if e.SessionID != online {
			t.Fatalf("session %s ended while %s was online", e.SessionID, online)
		}
		online = ""
		if !s.Known("0001/pos1") {
			return
		}
	}
}

func TestTakeoverByAnotherIdentityIsRefused(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	owner := connect(t, s, login{user: "olga", id: "shared", clean: true, expiry: 60})
	if _, ack, err := tryConnect(t, s, login{user: "mallory", id: "shared"}); err == nil || ack.ReasonCode != 0x85 {
		t.Errorf("live session: %+v %v", ack, err)
	}
	if code := owner.subscribe(root + "/rep/olga/#"); code != 1 {
		t.Errorf("the owner was disturbed: 0x%02x", code)
	}
	_ = owner.Disconnect(&paho.Disconnect{})
	eventually(t, "the owner's connection is over", func() bool { return s.SeatsTaken() == 0 })
	if _, ack, err := tryConnect(t, s, login{user: "mallory", id: "shared"}); err == nil || ack.ReasonCode != 0x85 {
		t.Errorf("sleeping session: %+v %v", ack, err)
	}
	eventually(t, "the other's connection is over", func() bool { return s.SeatsTaken() == 0 })
	if _, ack, err := tryConnect(t, s, login{user: "olga", id: "shared"}); err != nil || !ack.SessionPresent {
		t.Errorf("the owner's return: %+v %v", ack, err)
	}
}

func TestConfigurationIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*server.Config)
		key    string
	}{
		"anonymous beyond loopback": {func(c *server.Config) { c.Listeners.TCP.Address = "0.0.0.0:0" }, "listeners.tcp.address"},
		"anonymous by name":         {func(c *server.Config) { c.Listeners.TCP.Address = "example.org:1883" }, "listeners.tcp.address"},
		"one of two open":           {func(c *server.Config) { c.Listeners.WS.Address = ":8083" }, "listeners.ws.address"},
		"no listener":               {func(c *server.Config) { c.Listeners.TCP.Address = "" }, "listeners"},
		"no port":                   {func(c *server.Config) { c.Listeners.TCP.Address = "localhost" }, "listeners.tcp.address"},
		"nobody may log in":         {func(c *server.Config) { c.Anonymous = false }, "users_file"},
		"root":                      {func(c *server.Config) { c.TopicRoot = "a//b" }, "topic_root"},
		"tls without certificate":   {func(c *server.Config) { c.Listeners.TLS.Address = "127.0.0.1:0" }, "listeners.tls.cert_file"},
		"certificate on plain":      {func(c *server.Config) { c.Listeners.TCP.CertFile = "x" }, "listeners.tcp.cert_file"},
		"half a key pair":           {func(c *server.Config) { c.Listeners.WS = server.ListenerConfig{Address: "127.0.0.1:0", CertFile: "x"} }, "listeners.ws.key_file"},
		"tls version":               {func(c *server.Config) { c.Listeners.TCP.MinTLS = "1.1" }, "listeners.tcp.min_tls"},
		"payload":                   {func(c *server.Config) { c.Limits.MaxPayloadBytes = 1 }, "limits.max_payload_bytes"},
		"negative":                  {func(c *server.Config) { c.Limits.WriteDeadline = -1 }, "limits.write_deadline"},
	} {
		cfg := anonymous()
		c.change(&cfg)
		_, err := server.New(cfg, server.Options{})
		var field *server.FieldError
		if !errors.As(err, &field) || field.Key != c.key {
			t.Errorf("%s: %v, want key %s", name, err, c.key)
		}
	}
}

func TestStopToleratesAnyOrder(t *testing.T) {
	s, err := server.New(anonymous(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("started after Stop")
	}
	running := start(t, anonymous(), server.Options{})
	cfg := anonymous()
	cfg.Listeners.TCP.Address = running.Addr("tcp").String()
	second, err := server.New(cfg, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listeners.tcp.address") {
		t.Errorf("a taken port: %v", err)
	}
	silent, live := dial(t, running), connect(t, running, as("olga"))
	for range 2 {
		if err := running.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	silent.closed()
	receive(t, live.down)
}

func TestStopWaitsForIntake(t *testing.T) {
	entered, cancelled := make(chan struct{}), make(chan struct{})
	s := start(t, anonymous(), server.Options{Intake: func(ctx context.Context, _ server.Message) error {
		close(entered)
		<-ctx.Done()
		close(cancelled)
		return ctx.Err()
	}})
	c := dial(t, s)
	c.login(5, "olga", "olga")
	c.send(frame(0x30, str(root+"/req/olga/run"), []byte{0}, []byte("{}")))
	receive(t, entered)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-cancelled:
	default:
		t.Error("Stop returned before the intake did")
	}
}
