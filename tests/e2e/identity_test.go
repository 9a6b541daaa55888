package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// secrets are the passwords of everybody in the users file of these tests.
func secrets() map[string]string {
	return map[string]string{"alice": "alice's passphrase 密码", "bob": "bob-secret", "dispatcher": "hq-secret", "A/pos1": "a-secret", "B/pos1": "b-secret"}
}

// users writes a users file with the hashes that the broker's program prints,
// and a file with the password of each.
func (s *site) users() (path string) {
	s.t.Helper()
	hash := func(password string) string {
		cmd := exec.CommandContext(s.t.Context(), filepath.Join(bin, "broker"), "hash-password")
		cmd.Stdin = strings.NewReader(password + "\n")
		out, err := cmd.Output()
		if err != nil || !strings.HasPrefix(string(out), "$argon2id$") {
			s.t.Fatalf("hash-password: %q, %v", out, err)
		}
		return strings.TrimSpace(string(out))
	}
	var users, terminals strings.Builder
	for name, secret := range secrets() {
		s.write("secrets/"+name, secret+"\n")
		store, terminal, isTerminal := strings.Cut(name, "/")
		role := "technician"
		if name == "dispatcher" {
			role = name
		}
		if isTerminal {
			fmt.Fprintf(&terminals, "  - {store: %q, terminal: %s, password: %q}\n", store, terminal, hash(secret))
		} else {
			fmt.Fprintf(&users, "  - {name: %s, role: %s, password: %q}\n", name, role, hash(secret))
		}
	}
	return s.write("users.yaml", "users:\n"+users.String()+"terminals:\n"+terminals.String())
}

// stock runs one of the stock tools and returns what it printed and whether it
// ended well.
func (s *site) stock(tool string, args ...string) (string, error) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), programs.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, programs.Installed(s.t, "mosquitto_"+tool), append([]string{"-h", host, "-p", port, "-V", "5"}, args...)...).CombinedOutput()
	return string(out), err
}

// asks sends a request as a user with a password, with further arguments for
// the tool, and returns the reply.
func (s *site) asks(user, password, verb, payload string, more ...string) (protocol.Reply, error) {
	s.t.Helper()
	if password != "" {
		more = append(more, "-P", password)
	}
	out, err := s.stock("rr", append([]string{"-u", user, "-q", "1", "-t", "muster/v1/req/" + user + "/" + verb,
		"-e", "muster/v1/rep/" + user + "/e2e", "-m", payload}, more...)...)
	if err != nil {
		return protocol.Reply{}, fmt.Errorf("%w: %s", err, out)
	}
	var reply protocol.Reply
	if err := protocol.Decode([]byte(out), protocol.MaxPayloadBytes, &reply); err != nil {
		s.t.Fatalf("reply %q: %v", out, err)
	}
	return reply, nil
}

// TestEverybodyLogsInAndActsAsThemselvesAlone: users and terminals of a file
// with argon2id hashes, over the embedded broker and over one that runs apart,
// where headquarters logs in too.
func TestEverybodyLogsInAndActsAsThemselvesAlone(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%v", apart), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A", "B"}, "")
			users := s.users()
			broker := fmt.Sprintf("broker:\n  listeners: {tcp: {address: %q}}\n  anonymous: false\n  users_file: %q\n", s.addr, users)
			if apart {
				programs.Launch(t, filepath.Join(bin, "broker"), "-config", s.write("broker.yaml", broker)).AwaitOutput("broker listens")
				broker = fmt.Sprintf("transport: mqtt\nmqtt: {url: \"mqtt://%s\", user: dispatcher, password_file: secrets/dispatcher}\n", s.addr)
			}
			s.config = s.write("dispatcher.yaml", "data_folder: data\nreports_folder: reports\nstores_file: stores.csv\njobs_folder: jobs\n"+broker)
			s.serve()
			pass := secrets()
			s.refuseForeignTopics(pass) // before the terminals come, whose names it takes
			for _, store := range []string{"A", "B"} {
				settings, _, gate := markingExecutor(s, store)
				touch(t, gate)
				s.write("agents/"+store+"/secret", secrets()[store+"/pos1"]+"\n")
				s.agentWith(store, fmt.Sprintf("broker: {url: \"mqtt://%s\", password_file: secret}\n", s.addr)+settings)
			}
			for name, bad := range map[string]string{"no password": "", "wrong password": "alice", "another's": pass["bob"]} {
				if _, err := s.asks("alice", bad, "jobs", "{}", "-W", "5"); err == nil {
					t.Errorf("%s: alice was let in", name)
				}
			}
			if _, err := s.asks("nobody", "x", "jobs", "{}", "-W", "5"); err == nil {
				t.Error("a stranger was let in")
			}
			reply, err := s.asks("alice", pass["alice"], "run", `{"requestId":"mine","job":"probe","stores":"all"}`)
			if err != nil || !reply.OK || *reply.Duplicate {
				t.Fatalf("reply %+v, %v", reply, err)
			}
			report, _ := s.report(reply.RunID, 1)
			if report.Counts != (protocol.Counts{Succeeded: 2}) || report.RequestedBy != "alice" {
				t.Errorf("counts %+v, asked by %s", report.Counts, report.RequestedBy)
			}
			if manifests := s.manifests("*"); len(manifests) != 1 {
				t.Errorf("reports %v: somebody asked for another", manifests)
			}
			for name, secret := range pass {
				if strings.Contains(s.hq.Output(), secret) {
					t.Errorf("the log holds the password of %s", name)
				}
			}
		})
	}
}

// refuseForeignTopics tries what the access rules deny. A refused publish ends
// well with the stock tool, so what counts is that nothing came of it.
func (s *site) refuseForeignTopics(pass map[string]string) {
	s.t.Helper()
	run := `{"job":"probe","stores":"all"}`
	for _, c := range [][3]string{
		{"alice", "muster/v1/req/bob/run", run}, {"alice", "muster/v1/req/dispatcher/run", run}, {"A/pos1", "muster/v1/req/alice/run", run},
		{"alice", "muster/v1/stores/A/terminals/pos1/result", `{}`}, {"alice", "muster/v1/stores/A/tasks/T", `{}`},
		{"A/pos1", "muster/v1/stores/B/tasks/T", `{}`}, {"A/pos1", "muster/v1/stores/B/terminals/pos1/hello", `{}`},
	} {
		id := "probe"
		if strings.Contains(c[0], "/") {
			id = c[0]
		}
		if out, err := s.stock("pub", "-i", id, "-u", c[0], "-P", pass[c[0]], "-q", "1", "-t", c[1], "-m", c[2]); err != nil {
			s.t.Errorf("%s was not let in: %q, %v", c[0], out, err)
		}
	}
	for _, c := range [][2]string{
		{"alice", "muster/v1/rep/bob/#"}, {"alice", "#"}, {"alice", "muster/v1/#"}, {"alice", "$share/g/muster/v1/rep/bob/#"},
		{"alice", "muster/v1/stores/A/tasks/+"}, {"alice", "muster/v1/req/#"}, {"alice", "muster/v1/rep/+/last"},
	} {
		out, err := s.stock("sub", "-u", c[0], "-P", pass[c[0]], "-t", c[1], "-W", "2", "-C", "1", "-v")
		if !strings.Contains(out, "denied") || strings.Contains(out, "muster/") {
			s.t.Errorf("%s reads %s: %q, %v", c[0], c[1], out, err)
		}
	}
	if out, err := s.stock("sub", "-i", "B/pos1", "-u", "B/pos1", "-P", pass["A/pos1"], "-t", "muster/v1/info", "-W", "2", "-C", "1"); err == nil {
		s.t.Errorf("A's password opens B: %q", out)
	}
}

// certificate writes a certificate for the loopback address that signs itself.
func (s *site) certificate() (cert, key string) {
	s.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "muster e2e"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		s.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("tls/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return s.write("tls/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))), "tls/key.pem"
}

// TestEveryListenerServesTerminalsAndTechnicians: TLS and WebSocket, plain and
// secure, switched on by configuration alone, each with a real terminal, and
// orders over TLS with the stock tool and our own.
func TestEveryListenerServesTerminalsAndTechnicians(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"ws": false, "wss": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A", "B"}, "")
			web := programs.FreeAddr(t)
			cert, key := s.certificate()
			ws := fmt.Sprintf("{address: %q}", web)
			if secure {
				ws = fmt.Sprintf("{address: %q, cert_file: tls/cert.pem, key_file: %s}", web, key)
			}
			s.config = s.write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
broker:
  anonymous: true
  listeners:
    tcp: {address: ""}
    tls: {address: %q, cert_file: tls/cert.pem, key_file: %s, min_tls: "1.2"}
    ws: %s
`, s.addr, key, ws))
			s.serve()
			for store, url := range map[string]string{"A": "mqtts://" + s.addr, "B": name + "://" + web} {
				settings, _, gate := markingExecutor(s, store)
				touch(t, gate)
				s.agentWith(store, fmt.Sprintf("broker: {url: %q, ca_file: %q}\n", url, cert)+settings)
			}
			reply, err := s.asks("wang", "", "run", `{"job":"probe","stores":"all"}`, "--cafile", cert)
			if err != nil || !reply.OK {
				t.Fatalf("reply %+v, %v", reply, err)
			}
			if report, _ := s.report(reply.RunID, 1); report.Counts != (protocol.Counts{Succeeded: 2}) {
				t.Errorf("counts %+v", report.Counts)
			}
			for _, url := range []string{"mqtts://" + s.addr, name + "://" + web} {
				out, errs, code := s.shell("run", "probe", "--stores", "all", "--reason", url, "--wait", "--broker", url, "--ca-file", cert, "--user", "li")
				if code != 0 || !strings.Contains(out, "verdict complete") {
					t.Errorf("%s: exit code %d, %q, %q", url, code, out, errs)
				}
			}
			if out, err := s.stock("sub", "-u", "wang", "-t", "muster/v1/info", "-W", "2", "-C", "1"); err == nil {
				t.Errorf("the TLS listener speaks plain MQTT: %q", out)
			}
		})
	}
}
