package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/gorilla/websocket"

	"muster/broker/server"
	"muster/broker/server/users"
	"muster/internal/trust"
)

// people are users with every way to log in.
func people(t *testing.T) string {
	t.Helper()
	h, err := users.HashPassword([]byte("wonderland"))
	if err != nil {
		t.Fatal(err)
	}
	return "users:\n" +
		"  - {name: alice, role: technician, password: \"" + h + "\"}\n" +
		"  - {name: bob, role: technician, certificate: true}\n" +
		"  - {name: dora, role: approver, certificate: true, password: \"" + h + "\"}\n"
}

func TestCertificateSaysWhoAClientIs(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	s := start(t, a.config(people(t)), server.Options{})
	pos := a.terminal("0001", "pos1")
	none := tls.Certificate{}
	odd := a.issue(time.Now().Add(time.Hour), &url.URL{Scheme: "urn", Opaque: "muster:store:0001"})
	double := a.issue(time.Now().Add(time.Hour), trust.Holder{User: "bob"}.URI(), trust.Holder{User: "dora"}.URI())
	for name, c := range map[string]struct {
		cert               tls.Certificate
		user, password, id string
		code               byte
		reason             string
	}{
		"terminal":                      {pos, "0001/pos1", "", "0001/pos1", 0, ""},
		"terminal without name":         {pos, "", "", "0001/pos1", 0, ""},
		"terminal, password unread":     {pos, "0001/pos1", "anything", "0001/pos1", 0, ""},
		"name of another terminal":      {pos, "0001/pos2", "", "0001/pos2", 0x87, "the certificate is of 0001/pos1, and the user name is another"},
		"id of another terminal":        {pos, "0001/pos1", "", "0001/pos2", 0x85, "client identifier not valid"},
		"id of another, no name":        {pos, "", "", "0001/pos2", 0x85, "client identifier not valid"},
		"terminal under another id":     {pos, "", "", "laptop", 0x85, "client identifier not valid"},
		"terminal with a user's name":   {pos, "alice", "wonderland", "laptop", 0x87, "the certificate is of 0001/pos1"},
		"terminal's name in other case": {pos, "0001/POS1", "", "0001/POS1", 0x87, "the certificate is of 0001/pos1"},
		"name without certificate":      {none, "0001/pos1", "", "0001/pos1", 0x87, "a terminal proves itself by its certificate: it has shown none"},
		"user by password":              {none, "alice", "wonderland", "laptop", 0, ""},
		"wrong password":                {none, "alice", "Wonderland", "laptop", 0x86, ""},
		"user by certificate":           {a.user("bob"), "bob", "", "laptop", 0, ""},
		"user without name":             {a.user("bob"), "", "", "laptop", 0, ""},
		"user with another's name":      {a.user("bob"), "alice", "wonderland", "laptop", 0x87, "the certificate is of bob"},
		"user with a terminal's id":     {a.user("bob"), "", "", "0001/pos1", 0x85, "client identifier not valid"},
		"certificate only":              {none, "bob", "wonderland", "laptop", 0x86, ""},
		"certificate or password":       {none, "dora", "wonderland", "laptop", 0, ""},
		"user unknown":                  {a.user("eve"), "", "", "laptop", 0x87, "the users file does not know eve"},
		"user without certificate":      {a.user("alice"), "alice", "wonderland", "laptop", 0x87, "the users file does not say certificate: true of alice"},
		"names nobody":                  {odd, "0001/pos1", "", "0001/pos1", 0x87, "the certificate names no terminal and no user"},
		"names two":                     {double, "bob", "", "laptop", 0x87, "the certificate names 2 holders"},
	} {
		t.Run(name, func(t *testing.T) {
			var certs []tls.Certificate
			if c.cert.Leaf != nil {
				certs = append(certs, c.cert)
			}
			id := strings.Replace(c.id, "laptop", name, 1) // the clients stay, and each has its own
			_, code, reason := a.answer(s, login{user: c.user, password: c.password, id: id, clean: true}, certs...)
			if code != c.code || !strings.Contains(reason, c.reason) {
				t.Errorf("got 0x%02x %q, want 0x%02x %q", code, reason, c.code, c.reason)
			}
		})
	}
	for name, cert := range map[string]tls.Certificate{
		"another authority": stranger.terminal("0001", "pos1"),
		"expired":           a.issue(time.Now().Add(-time.Minute), trust.Holder{Store: "0001", Terminal: "pos1"}.URI()),
		"a server's":        {Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key},
	} {
		t.Run(name, func(t *testing.T) {
			conn := a.dial(s, cert)
			_, ack, err := connectOver(t, packets.NewThreadSafeConn(conn), as("0001/pos1"))
			if err == nil || ack != nil && ack.ReasonCode == 0 {
				t.Errorf("let in: %+v %v", ack, err)
			}
		})
	}
}

// TestCertificateBindsTheTerminalToItsStore: what the certificate says is what
// the rules go by, not what the client calls itself.
func TestCertificateBindsTheTerminalToItsStore(t *testing.T) {
	a := newAuthority(t)
	events, opts := newSessions()
	s := start(t, a.config("users: []\n"), opts)
	l := login{id: "0001/pos1", expiry: 3600} // no name, and it asks for a session
	c, code, _ := a.answer(s, l, a.terminal("0001", "pos1"))
	if code != 0 {
		t.Fatalf("0x%02x", code)
	}
	events.next(t, "pos1", true)
	if own, other := c.subscribe(root+"/stores/0001/tasks/+"), c.subscribe(root+"/stores/0002/tasks/+"); own != 1 || other != 0x87 {
		t.Errorf("own 0x%02x, another's 0x%02x", own, other)
	}
	_ = c.Disconnect(&paho.Disconnect{})
	events.next(t, "pos1", false)
	eventually(t, "no session is left of a terminal", func() bool { return !s.Known("0001/pos1") })
}

// TestPlainListenerTakesNoTerminal: else whoever reaches it is any terminal.
func TestPlainListenerTakesNoTerminal(t *testing.T) {
	a := newAuthority(t)
	s := start(t, a.config(people(t)), server.Options{})
	if _, ack, err := tryConnect(t, s, login{user: "0001/pos1", password: "x", id: "0001/pos1"}); err == nil || ack.ReasonCode != 0x87 {
		t.Errorf("with users: %+v %v", ack, err)
	}
	connect(t, s, login{user: "alice", password: "wonderland", id: "laptop"})
	cfg := a.config("users: []\n")
	cfg.Anonymous, cfg.UsersFile = true, ""
	open := start(t, cfg, server.Options{})
	if _, ack, err := tryConnect(t, open, as("0001/pos1")); err == nil || ack.ReasonCode != 0x87 {
		t.Errorf("anonymous: %+v %v", ack, err)
	}
	connect(t, open, as("olga"))
	if _, code, reason := a.answer(open, login{id: "0001/pos1"}, a.terminal("0001", "pos1")); code != 0 {
		t.Errorf("anonymous with its certificate: 0x%02x %s", code, reason)
	}
	if _, code, reason := a.answer(open, login{id: "laptop"}, a.user("bob")); code != 0 {
		t.Errorf("anonymous user with a certificate: 0x%02x %s", code, reason)
	}
}

func TestRefusalsOfCertificatesAreLogged(t *testing.T) {
	a := newAuthority(t)
	var log lockedBuffer
	s := start(t, a.config("users: []\n"), server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	a.answer(s, as("0001/pos2"), a.terminal("0001", "pos1"))
	eventually(t, "the refusal is logged", func() bool {
		return strings.Contains(log.String(), `"level":"INFO","msg":"refused a client","client_id":"0001/pos2"`) &&
			strings.Contains(log.String(), "the certificate is of 0001/pos1")
	})
}

func TestCertificateOverWebSocket(t *testing.T) {
	a := newAuthority(t)
	cfg := a.config("users: []\n")
	cfg.Listeners = server.Listeners{WS: a.listener()}
	s := start(t, cfg, server.Options{})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for id, want := range map[string]byte{"0001/pos1": 0, "0001/pos2": 0x85} {
		dialer := websocket.Dialer{Subprotocols: []string{"mqtt"}, TLSClientConfig: &tls.Config{
			RootCAs: pool, Certificates: []tls.Certificate{a.terminal("0001", "pos1")}}}
		ws, answer, err := dialer.Dial("wss://"+s.Addr("ws").String()+"/mqtt", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		_, ack, err := connectOver(t, packets.NewThreadSafeConn(&wsStream{Conn: ws}), login{id: id})
		if ack == nil || ack.ReasonCode != want {
			t.Errorf("%s: %+v %v", id, ack, err)
		}
	}
}

func TestCertificateOverTLS12(t *testing.T) {
	a := newAuthority(t)
	cfg := a.config("users: []\n")
	cfg.Listeners.TLS.MinTLS = "1.2"
	s := start(t, cfg, server.Options{})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	conn, err := tls.Dial("tcp", s.Addr("tls").String(), &tls.Config{
		RootCAs: pool, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.terminal("0001", "pos1")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ack, err := connectOver(t, packets.NewThreadSafeConn(conn), login{id: "0001/pos1"}); err != nil {
		t.Errorf("%+v %v", ack, err)
	}
}

// TestFilesThatDoNotFitStopTheStart: what is wrong, where, and what to do.
func TestFilesThatDoNotFitStopTheStart(t *testing.T) {
	h, err := users.HashPassword([]byte("wonderland"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := newAuthority(t)
	stranger.revoke()
	for name, c := range map[string]struct {
		users  string
		change func(a *authority, cfg *server.Config)
		want   string
	}{
		"terminal's password": {"users: []\nterminals:\n  - store: \"0001\"\n    terminal: pos1\n    password: \"" + h + "\"\n", nil,
			"users.yaml:5: terminals[0].password: lets nobody in: with client_ca_file set a terminal proves itself by its certificate; " +
				"remove what stands under terminals, and enrol each"},
		"certificate nobody checks": {"users:\n  - name: bob\n    role: operator\n    certificate: true\n",
			func(_ *authority, cfg *server.Config) {
				cfg.Listeners.TLS.ClientCAFile, cfg.Listeners.TLS.CRLFile = "", ""
			},
			"users.yaml:4: users[0].certificate: no listener checks certificates: set client_ca_file"},
		"no authority file": {"users: []\n", func(a *authority, _ *server.Config) { _ = os.Remove(a.path("ca.crt")) }, "listeners.tls.client_ca_file: open"},
		"authority is none": {"users: []\n", func(a *authority, cfg *server.Config) { cfg.Listeners.TLS.ClientCAFile = a.path("broker.crt") }, "is not an authority's"},
		"authority is text": {"users: []\n", func(a *authority, _ *server.Config) { a.put("ca.crt", []byte("hello")) }, "ca.crt: is not a file of PEM certificates"},
		"no list":           {"users: []\n", func(a *authority, _ *server.Config) { _ = os.Remove(a.path("crl.pem")) }, "listeners.tls.crl_file: cannot use"},
		"list is text":      {"users: []\n", func(a *authority, _ *server.Config) { a.put("crl.pem", []byte("hello")) }, "it is not a list of revoked certificates"},
		"list cut short":    {"users: []\n", func(a *authority, _ *server.Config) { a.cut("crl.pem") }, "it is not a list of revoked certificates"},
		"list of a stranger": {"users: []\n", func(a *authority, cfg *server.Config) { cfg.Listeners.TLS.CRLFile = stranger.path("crl.pem") },
			"is not signed by an authority of client_ca_file"},
		"list is a certificate": {"users: []\n", func(a *authority, cfg *server.Config) { cfg.Listeners.TLS.CRLFile = a.path("ca.crt") }, "it is not a list of revoked certificates"},
		"key of another":        {"users: []\n", func(a *authority, cfg *server.Config) { cfg.Listeners.TLS.KeyFile = stranger.path("broker.key") }, "listeners.tls.cert_file: cannot use "},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			a.revoke()
			cfg := a.config(c.users)
			if c.change != nil {
				c.change(a, &cfg)
			}
			if err := cfg.CheckFiles(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check: got %v, want %q", err, c.want)
			}
			s, err := server.New(cfg, server.Options{})
			if err == nil {
				err = s.Start(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("start: got %v, want %q", err, c.want)
			}
		})
	}
}

// cut leaves the first half of a file.
func (a *authority) cut(name string) {
	a.t.Helper()
	data, err := os.ReadFile(a.path(name))
	if err != nil {
		a.t.Fatal(err)
	}
	a.put(name, data[:len(data)/2])
}

// guessableHash is of "password".
const guessableHash = "$argon2id$v=19$m=19456,t=2,p=1$96HCbTj/ZQz5mHnyx4E3Tw$C5GkoO6m0jnJvDpVzplQOv0e9RqotDClifqpB6zhpDI"

func TestGuessablePasswordStopsTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.yaml")
	// The hash of "password", made by another tool.
	text := "users:\n  - name: alice\n    role: operator\n    password: \"" + guessableHash + "\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := anonymous()
	cfg.Anonymous, cfg.UsersFile = false, path
	if _, err := server.New(cfg, server.Options{}); err == nil || !strings.Contains(err.Error(), "users.yaml:4: users[0].password: alice: the password is one that everybody guesses") {
		t.Errorf("got %v", err)
	}
}

func TestPlainListenerBeyondLoopbackIsSaidAtEachStart(t *testing.T) {
	cfg := withUsers(t)
	cfg.Listeners.TCP.Address = "0.0.0.0:0"
	if _, err := server.New(cfg, server.Options{}); err == nil || !strings.Contains(err.Error(), "or set allow_plaintext: true") {
		t.Fatalf("got %v", err)
	}
	cfg.AllowPlaintext = true
	var log lockedBuffer
	s := start(t, cfg, server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if got := log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "without TLS") {
		t.Errorf("log: %s", got)
	}
	if s.Addr("tcp") == nil {
		t.Error("it does not listen")
	}
}
