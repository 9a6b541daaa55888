package attack_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/internal/protocol"
	"muster/tests/programs"
)

func TestS01CertificateOpensItsOwnNameAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a := s.steal("A", "pos1", s.enrol("A", "pos1"))
	s.enrol("B", "pos1")
	s.enter(a.login())
	for what, names := range map[string][2]string{
		"A as B":                      {"B/pos1", "B/pos1"},
		"A with B's client id":        {"A/pos1", "B/pos1"},
		"A as another terminal":       {"A/pos2", "A/pos2"},
		"A with B's user name":        {"B/pos1", "A/pos1"},
		"A as an operator":            {"operator", "A/pos1"},
		"A with a client id of a man": {"A/pos1", "laptop"},
		"A in other case":             {"a/pos1", "a/pos1"},
	} {
		s.refused(what, login{user: names[0], clientID: names[1], certificate: &a.certificate})
	}
	s.refused("a terminal without its certificate", login{user: "A/pos1", password: "A/pos1"})
	foreign := authority(t, "urn:muster:store:A:terminal:pos1")
	s.refused("a certificate of another authority", login{user: "A/pos1", certificate: &foreign})
}

// authority makes a certificate for a holder, signed by nobody we know.
func authority(t *testing.T, urn string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name, err := url.Parse(urn)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Muster"}, URIs: []*url.URL{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestS09TakingASessionOverInALoopEndsInABan(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{limits: "flapping_connects: 15, flapping_window: 1m, flapping_ban: 5m"}, "A", "B")
	a, b := s.steal("A", "pos1", s.enrol("A", "pos1")), s.steal("B", "pos1", s.enrol("B", "pos1"))
	honest := s.enter(b.login())
	let, banned := 0, 0
	for range 40 {
		c, err := s.dial(a.login())
		switch {
		case err == nil:
			let++
		case c != nil && c.connack != nil && c.connack.ReasonCode == 0x8a:
			banned++
		default:
			t.Fatalf("neither let in nor banned: %v", err)
		}
	}
	if let > 15 || banned < 25 {
		t.Errorf("%d let in, %d banned", let, banned)
	}
	if code := honest.subscribe("muster/v1/stores/B/tasks/+"); code >= 0x80 {
		t.Errorf("the other store suffers: 0x%02x", code)
	}
	s.enter(as("technician"))
}

func TestS29OldTLSPlainTextAndForeignServersAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	folder := s.enrol("A", "pos1")
	for version, name := range map[uint16]string{tls.VersionTLS10: "1.0", tls.VersionTLS11: "1.1", tls.VersionTLS12: "1.2"} {
		for _, address := range []string{s.broker, s.enrolment} {
			conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: s.authority, MinVersion: version, MaxVersion: version}) //nolint:gosec // the fault to be refused
			if err == nil {
				t.Errorf("TLS %s is spoken on %s", name, address)
				_ = conn.Close()
			}
		}
	}
	plain := wire(t, s.broker)
	if _, err := plain.Write([]byte("\x10\x0e\x00\x04MQTT\x05\x02\x00\x1e\x00\x00\x01a")); err != nil {
		t.Fatal(err)
	}
	_ = plain.SetReadDeadline(time.Now().Add(programs.Patience))
	answer := make([]byte, 64)
	if n, _ := plain.Read(answer); n > 0 && answer[0] == 0x20 {
		t.Error("a CONNECT in plain text was answered")
	}

	other := newSite(t, settings{}, "A")
	config := s.write("wrong.yaml", "store: A\nterminal: pos1\ntime_zone: Asia/Shanghai\nwork_folder: wrong\nidentity: {folder: \""+folder+"\"}\nbroker: {url: \"mqtts://"+other.broker+"\"}\n")
	agent := programs.Launch(t, filepath.Join(bin, "edge-agent"), "-config", config)
	agent.AwaitOutput("certificate")
	if out := agent.Output(); strings.Contains(out, "link is up") {
		t.Errorf("the agent talks to a server of another authority: %s", out)
	}
	if out, err := s.try("edge-agent", "enroll", "--token", s.token("A", "pos2"), "--headquarters", "https://"+other.enrolment, "--identity", s.path("x")); err == nil {
		t.Errorf("a token was given to a foreign headquarters: %s", out)
	}
}

func TestS29PlainTextBeyondLoopbackNeedsPlainWords(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	text := string(s.read("dispatcher.yaml"))
	open := s.write("open.yaml", strings.Replace(text, `tcp: {address: ""}`, `tcp: {address: "0.0.0.0:0"}`, 1))
	if out, err := s.try("dispatcher", "check-config", "-c", open); err == nil || !strings.Contains(out, "allow_plaintext") {
		t.Errorf("%v: %s", err, out)
	}
	words := s.write("words.yaml", strings.Replace(text, `tcp: {address: ""}`, `tcp: {address: "0.0.0.0:0"}`, 1)+"")
	words = s.write("words.yaml", strings.Replace(string(s.read(filepath.Base(words))), "anonymous: false", "anonymous: false\n  allow_plaintext: true", 1))
	if out, err := s.try("dispatcher", "check-config", "-c", words); err != nil {
		t.Errorf("in so many words: %v: %s", err, out)
	}
}

func TestS30NoEmptyAndNoDefaultPasswordLetsAnybodyIn(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	for _, user := range []string{"operator", "olga", "admin", "dispatcher", "muster", "root", "anonymous", ""} {
		for _, password := range []string{"", user, "admin", "password", "muster", "12345678", "changeme"} {
			if password == passwords()[user] && user != "" {
				continue
			}
			s.refused("user "+user+" with password "+password, login{user: user, clientID: "laptop", password: password})
		}
	}
	text := string(s.read("dispatcher.yaml"))
	for name, c := range map[string]struct{ users, want string }{
		"empty":       {"users:\n  - {name: x, role: operator, password: \"\"}\n", "password"},
		"none":        {"users:\n  - {name: x, role: operator}\n", "password"},
		"in clear":    {"users:\n  - {name: x, role: operator, password: \"correct horse\"}\n", "argon2id"},
		"no users":    {"", "users_file"},
		"of the name": {"", ""},
	} {
		file := "users-" + strings.ReplaceAll(name, " ", "-") + ".yaml"
		config := strings.Replace(text, "users_file: users.yaml", "users_file: "+file, 1)
		switch name {
		case "no users":
			config = strings.Replace(text, "users_file: users.yaml", `users_file: ""`, 1)
		case "of the name":
			continue
		default:
			s.write(file, c.users)
		}
		if out, err := s.try("dispatcher", "check-config", "-c", s.write("config-"+file, config)); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestS31SecretsThatOthersCanReadStopTheStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	folder := s.enrol("A", "pos1")
	agent, _ := s.agent("A", "pos1", folder)
	agent.AwaitOutput("link is up")
	agent.Terminate()
	s.hq.Terminate()
	config := s.path("agents/A/pos1.yaml")
	for _, path := range []string{s.path("identity"), s.path("identity/ca.key"), s.path("identity/broker.key"), folder, filepath.Join(folder, "terminal.key")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s was made with mode %o", path, info.Mode().Perm())
		}
		if err := os.Chmod(path, info.Mode().Perm()|0o044); err != nil {
			t.Fatal(err)
		}
		program, args := "dispatcher", []string{"serve", "-c", s.path("dispatcher.yaml")}
		if strings.HasPrefix(path, folder) {
			program, args = "edge-agent", []string{"-config", config}
		}
		p := programs.Launch(t, filepath.Join(bin, program), args...)
		if code := p.ExitCode(); code == 0 || !strings.Contains(p.Output(), "chmod") || !strings.Contains(p.Output(), path) {
			t.Errorf("%s with others' rights: exit %d: %s", path, code, p.Output())
		}
		if err := os.Chmod(path, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestS37RevocationEndsALiveSessionWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a, b := s.steal("A", "pos1", s.enrol("A", "pos1")), s.steal("B", "pos1", s.enrol("B", "pos1"))
	live, other := s.enter(a.login()), s.enter(b.login())
	began := time.Now()
	s.run("dispatcher", "revoke", "A", "pos1", "--data", s.path("data"))
	if _, err := live.ended(10 * time.Second); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	s.refused("a revoked terminal", a.login())
	if code := other.subscribe("muster/v1/stores/B/tasks/+"); code >= 0x80 {
		t.Errorf("the other store suffers: 0x%02x", code)
	}
	// What it kept to say is not believed either, and it cannot renew itself.
	reply := s.ask("operator", "run", `{"job":"probe","stores":["A"],"barrierSeconds":3}`)
	if row := s.report(reply.RunID, 1).Stores[0]; row.Outcome == "succeeded" {
		t.Errorf("row %+v", row)
	}
}

func TestS40EnrolmentTokenIsGoodOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	token := s.token("A", "pos1")
	s.run("edge-agent", "enroll", "--token", token, "--headquarters", "https://"+s.enrolment, "--identity", s.path("first"))
	out, err := s.try("edge-agent", "enroll", "--token", token, "--headquarters", "https://"+s.enrolment, "--identity", s.path("second"))
	if err == nil || !strings.Contains(out, "token") {
		t.Errorf("a second time: %v: %s", err, out)
	}
	race := s.token("B", "pos1")
	var won atomic.Int64
	done := make(chan struct{})
	for i := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			if _, err := s.try("edge-agent", "enroll", "--token", race, "--headquarters", "https://"+s.enrolment, "--identity", s.path("race"+string(rune('0'+i)))); err == nil {
				won.Add(1)
			}
		}()
	}
	for range 8 {
		<-done
	}
	if won.Load() != 1 {
		t.Errorf("%d of 8 at once got a certificate", won.Load())
	}
	made, err := os.ReadFile(s.path("data/muster.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	made = append(made, s.read("data/muster.db")...)
	if secret := strings.Split(token, ".")[1]; strings.Contains(string(made)+s.hq.Output(), secret) {
		t.Error("the token stands in the database or the log")
	}
}

func TestS41PresenceIsTheTerminalsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a := s.steal("A", "pos1", s.enrol("A", "pos1"))
	b := s.enter(s.steal("B", "pos1", s.enrol("B", "pos1")).login())
	watch := s.enter(as("operator"))
	const topic = "muster/v1/stores/B/terminals/pos1/presence"
	watch.subscribe(topic)
	var presence protocol.Presence
	if err := protocol.Decode(watch.take(topic).Payload, protocol.MaxPayloadBytes, &presence); err != nil || !presence.Online {
		t.Fatalf("%+v %v", presence, err)
	}
	forged := `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-09-17T12:00:00.000Z","seq":9,"online":false,"since":"2099-01-01T00:00:00.000Z","sessionId":"zzzz"}`
	thief := s.enter(a.login())
	signed := message{topic: topic, payload: forged, retain: true, signature: a.signer.Sign(topic, []byte(forged))}
	if code, err := thief.publish(signed); err == nil && code < 0x80 {
		t.Errorf("A said that B is offline: 0x%02x", code)
	}
	own := s.steal("B", "pos1", s.path("terminals/B/pos1"))
	if _, err := b.publish(message{topic: topic, payload: forged, retain: true, signature: own.signer.Sign(topic, []byte(forged))}); err != nil {
		t.Log(err)
	}
	again := s.enter(login{user: "auditor", clientID: "later", password: passwords()["auditor"]})
	again.subscribe(topic)
	if err := protocol.Decode(again.take(topic).Payload, protocol.MaxPayloadBytes, &presence); err != nil || !presence.Online {
		t.Errorf("headquarters shows %+v, %v", presence, err)
	}
	if n := watch.received(func(m *paho.Publish) bool { return strings.Contains(string(m.Payload), "zzzz") }); n > 0 {
		t.Errorf("the forged presence was delivered %d times", n)
	}
}
