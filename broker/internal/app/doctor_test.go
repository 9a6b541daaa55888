package app_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/broker/internal/app"
	"muster/internal/doctor"
	"muster/tests/programs"
)

// writeCertificate puts a certificate of 127.0.0.1 that signs itself, and its key, into
// a folder as broker.crt and broker.key.
func writeCertificate(t *testing.T, folder string, from, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"broker.crt": {Type: "CERTIFICATE", Bytes: cert}, "broker.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// site is a broker's folder with a plain and a secure listener.
func site(t *testing.T) (config, plain string) {
	t.Helper()
	folder := t.TempDir()
	plain = programs.FreeAddr(t)
	writeCertificate(t, folder, time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour))
	config = filepath.Join(folder, "broker.yaml")
	text := fmt.Sprintf("broker:\n  users_file: users.yaml\n  limits: {max_connections: 100}\n  listeners:\n    tcp: {address: %q}\n    tls: {address: %q, cert_file: broker.crt, key_file: broker.key}\n",
		plain, programs.FreeAddr(t))
	for name, text := range map[string]string{"broker.yaml": text, "users.yaml": "users:\n  - {name: dora, role: operator, password: \"\"}\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config, plain
}

// examined is what doctor says, by check.
func examined(t *testing.T, config string) (found map[string]doctor.Finding, code int) {
	t.Helper()
	var said bytes.Buffer
	code = app.Run(t.Context(), "v1", []string{"doctor", "-c", config, "-json"}, nil, &said, &said, nil)
	var all doctor.Findings
	if err := json.Unmarshal(said.Bytes(), &all); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	found = map[string]doctor.Finding{}
	for _, one := range all.Findings {
		found[one.Check] = one
	}
	if all.OK != (code == 0) {
		t.Errorf("exit %d, and ok %v", code, all.OK)
	}
	return found, code
}

func TestDoctorLooksAtFilesCertificatesAndListeners(t *testing.T) {
	programs.BareEnvironment(t)
	config, plain := site(t)
	folder := filepath.Dir(config)
	expect := func(what string, code int, wanted map[string]string) {
		t.Helper()
		found, got := examined(t, config)
		if got != code {
			t.Errorf("%s: exit %d, want %d: %+v", what, got, code, found)
		}
		for check, words := range wanted {
			state, text, _ := strings.Cut(words, " ")
			if one := found[check]; string(one.State) != state || !strings.Contains(one.Text, text) || state == string(doctor.Ill) && one.Mend == "" {
				t.Errorf("%s: %s is %+v, want %s", what, check, one, words)
			}
		}
	}
	expect("a bad users file", 1, map[string]string{"users": "fail users.yaml:2: users[0]: password: is empty",
		"listener tcp": "ok " + plain + " is free", "files of listener tls": "ok all can be used", "certificate of listener tls": "ok is good until"})

	if err := os.WriteFile(filepath.Join(folder, "users.yaml"), []byte("users: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("nobody may log in", 0, map[string]string{"users": "warn names nobody"})
	openTo := func(mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Join(folder, "users.yaml"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "windows" { // which keeps rights elsewhere
		openTo(0o666)
		expect("others may write", 1, map[string]string{"users": "fail others may write it"})
		openTo(0o644)
		expect("everybody may read", 0, map[string]string{"users": "warn everybody may read it"})
		openTo(0o600)
	}

	serving, stop := context.WithCancel(t.Context())
	log, ended := &output{}, make(chan int, 1)
	go func() { ended <- app.Run(serving, "v1", []string{"-c", config}, nil, nil, log, nil) }()
	programs.Eventually(t, "the broker starting", func() bool { return log.says("broker started") })
	expect("beside itself", 0, map[string]string{"listener tcp": "ok and a broker answers within", "listener tls": "ok and a broker answers within"})
	stop()
	<-ended

	writeCertificate(t, folder, time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
	expect("an old certificate", 1, map[string]string{"certificate of listener tls": "fail ended at"})
	if err := os.Remove(filepath.Join(folder, "broker.key")); err != nil {
		t.Fatal(err)
	}
	expect("no key", 1, map[string]string{"files of listener tls": "fail put it there, or name another"})
}

func TestDoctorSeesThatAnotherProgramHasThePort(t *testing.T) {
	programs.BareEnvironment(t)
	config, plain := site(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	found, code := examined(t, config)
	if one := found["listener tcp"]; code != 1 || one.State != doctor.Ill || !strings.Contains(one.Text, "no MQTT broker") || one.Mend == "" {
		t.Errorf("exit %d: %+v", code, one)
	}
	var said bytes.Buffer
	if code := app.Run(t.Context(), "v1", []string{"-c", config, "-set", "broker.users_file=", "-set", "broker.anonymous=true"}, nil, &said, &said, nil); code != 1 ||
		!strings.Contains(said.String(), "broker.yaml:5: broker.listeners.tcp.address: "+plain+" is taken by ") || !strings.Contains(said.String(), "choose another port") {
		t.Errorf("the start: exit %d: %s", code, said.String())
	}
}

func TestAnOldCertificateIsToldOfAndEndsNothing(t *testing.T) {
	programs.BareEnvironment(t)
	config, _ := site(t)
	folder := filepath.Dir(config)
	writeCertificate(t, folder, time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
	if err := os.WriteFile(filepath.Join(folder, "users.yaml"), []byte("users: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if code := app.Run(t.Context(), "v1", []string{"check-config", "-c", config}, nil, &said, &said, nil); code != 0 ||
		!strings.Contains(said.String(), "warning: "+config+":6: broker.listeners.tls.cert_file: the certificate ended at ") {
		t.Errorf("exit %d: %s", code, said.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	log, ended := &output{}, make(chan int, 1)
	go func() { ended <- app.Run(ctx, "v1", []string{"-c", config}, nil, nil, log, nil) }()
	programs.Eventually(t, "the broker starting", func() bool { return log.says("broker started") })
	if !log.says("clients will refuse this listener") {
		t.Error("the log does not tell")
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
}
