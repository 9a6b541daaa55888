package main_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/broker/server"
	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// TestAnEnrolledTerminalWorksOverMutualTLS runs the real program from its token
// to its signed result, against the real broker.
func TestAnEnrolledTerminalWorksOverMutualTLS(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the executor is a shell")
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	authority := hqtest.New(t)
	certificate := authority.Server(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	door := authority.Enrol(certificate)
	listener := authority.Files(certificate, folder)
	headquarters := startHQ(t, topics, server.Listeners{TLS: server.ListenerConfig{Address: "127.0.0.1:0",
		CertFile: listener.Certificate, KeyFile: listener.Key, ClientCAFile: listener.Authority}},
		func(h *hq) { h.signer = authority.Key })
	path := filepath.Join(folder, "agent.yaml")
	config := fmt.Sprintf(`store: "007"
identity: {folder: identity}
broker: {url: "mqtts://%s"}
work_folder: data
executors:
  - {type: stubborn, version: 1, command: [/bin/echo, "{}"]}
`, headquarters.broker.Addr("tls"))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := build(t)
	enrollAs(t, bin, door, path, "mqtts://"+headquarters.broker.Addr("tls").String())
	var log bytes.Buffer
	agent := exec.Command(bin, "-config", path)
	agent.Stderr = &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	id, err := identity.Open(filepath.Join(folder, "identity"), "007", "pos-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-headquarters.results:
		if r.Outcome != protocol.AnswerSucceeded || r.OfferSHA256 == "" {
			t.Errorf("answered %+v", r)
		}
	case <-time.After(patience):
		_ = agent.Process.Kill()
		_ = agent.Wait()
		t.Fatalf("no result: %s", log.String())
	}
	public, _ := id.Certificate().Leaf.PublicKey.(ed25519.PublicKey)
	for len(headquarters.heard) > 0 {
		m := <-headquarters.heard
		if err := m.Signature.Verify(public, m.Topic, m.Payload); err != nil {
			t.Errorf("%s: %v", m.Topic, err)
		}
	}
}

// enrollAs gets the identity of pos-1 of 007, once, and sees it checked.
func enrollAs(t *testing.T, bin string, door *hqtest.Enrolment, config, broker string) {
	t.Helper()
	run := func(args ...string) (string, int) {
		cmd := exec.Command(bin, args...)
		cmd.Stdin = strings.NewReader(door.Token(trust.Holder{Store: "009", Terminal: "pos-1"}) + "\n")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	token := door.Token(trust.Holder{Store: "007", Terminal: "pos-1"})
	other := door.Token(trust.Holder{Store: "008", Terminal: "pos-1"})
	kept := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(kept, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := kept + "-open"
	if err := errors.Join(os.WriteFile(open, []byte(token), 0o600), os.Chmod(open, 0o644)); err != nil { //nolint:gosec // it is what is refused
		t.Fatal(err)
	}
	configuration := fmt.Sprintf("\nidentity:\n  folder: %q\nbroker:\n  url: %q\n", filepath.Join(filepath.Dir(config), "identity"), broker)
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--token", other}, 1, "NOT_ALLOWED: the token is for another terminal"},
		{[]string{"--token", other}, 1, "every user of this machine can read what --token says"},
		{[]string{"--token", other, "--token-file", kept}, 2, "one is enough"},
		{[]string{"--token-file", kept + "-not"}, 1, "cannot read the token"},
		{[]string{"--token-file", open}, 1, "others may read it; run: chmod 600 " + open},
		{[]string{"--token-file", "-"}, 1, "NOT_ALLOWED: the token is for another terminal"},
		{[]string{"--token-file", kept}, 0, "terminal pos-1 of store 007 is enrolled in " + filepath.Join(filepath.Dir(config), "identity")},
		{[]string{"--token", token}, 1, "use --force"},
		{[]string{"--token", token, "--force"}, 1, "the token was used"},
		{[]string{"--token", door.Token(trust.Holder{Store: "007", Terminal: "pos-1"}), "--force"}, 0, configuration},
	} {
		if runtime.GOOS == "windows" && slices.Contains(tc.args, open) {
			continue // rights are not looked at there
		}
		out, code := run(append([]string{"enroll", "--headquarters", door.URL, "--config", config}, tc.args...)...)
		if code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("enroll: code %d: %s; want %d, %s", code, out, tc.code, tc.want)
		}
	}
	if out, code := run("check-config", "-config", config); code != 0 || !strings.Contains(out, "the certificate lasts until ") {
		t.Errorf("check-config: code %d: %s", code, out)
	}
}

// TestAnAgentEnrolsByItself: the program waits for its token, is told to stop
// meanwhile, ends when the token will never do, and goes on with one that does.
func TestAnAgentEnrolsByItself(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	folder := t.TempDir()
	authority := hqtest.New(t)
	door := authority.Enrol(authority.Server(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	path, token := filepath.Join(folder, "agent.yaml"), filepath.Join(folder, "token")
	config := fmt.Sprintf("store: \"007\"\nidentity: {folder: identity, headquarters: %q, token_file: token}\nbroker: {url: \"mqtts://127.0.0.1:1\"}\nwork_folder: data\n", door.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := build(t)
	out, err := exec.Command(bin, "check-config", "-config", path).CombinedOutput()
	if want := "no identity yet: the agent enrols by itself at " + door.URL + " with the token in " + token; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("check-config: %s, %v", out, err)
	}
	for _, c := range []struct {
		token, await string
		code         int
	}{
		{"", "waits for the token of its enrolment", 0},
		{"mt1." + strings.Repeat("A", 43) + door.Token(trust.Holder{})[47:], "headquarters refused (403 Forbidden): NOT_ALLOWED: the token is unknown", 1},
		{door.Token(trust.Holder{Store: "007", Terminal: "pos-1"}), "edge agent starts", 0},
		{"spent", "edge agent starts", 0},
	} {
		if c.token != "" {
			if err := os.WriteFile(token, []byte(c.token), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		said, code := runUntil(t, exec.Command(bin, "-config", path), c.await)
		if code != c.code || !strings.Contains(said, c.await) {
			t.Errorf("token %q: code %d: %s; want %d, %s", c.token, code, said, c.code, c.await)
		}
	}
}

// runUntil runs a program until it says text, then tells it to stop, and returns
// what it said and its exit code.
func runUntil(t *testing.T, cmd *exec.Cmd, text string) (string, int) {
	t.Helper()
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	var said strings.Builder
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), text) {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may be ending by itself
		}
	}
	_ = cmd.Wait() // the code says it
	return said.String(), cmd.ProcessState.ExitCode()
}
