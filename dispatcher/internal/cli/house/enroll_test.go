package house_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/cli"
	"muster/dispatcher/internal/cli/house"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/trust"
)

// run executes one command and returns what it printed and its exit code.
func run(t *testing.T, cmd *cobra.Command, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "dispatcher", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(cmd)
	root.SetArgs(append([]string{cmd.Name()}, args...))
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.ExecuteContext(t.Context())
	if err == nil {
		return out.String(), errs.String(), 0
	}
	errs.WriteString(err.Error())
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return out.String(), errs.String(), coded.ExitCode()
	}
	return out.String(), errs.String(), screen.ExitRefused
}

// shell runs one of all commands.
func shell(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	for _, cmd := range cli.Commands() {
		if cmd.Name() == args[0] {
			return run(t, cmd, args[1:]...)
		}
	}
	t.Fatalf("there is no command %s", args[0])
	return "", "", 0
}

// shellIn runs one that must succeed, with a standard input.
func shellIn(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "dispatcher", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(cli.Commands()...)
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %v: %s", args, err, errs.String())
	}
	return out.String()
}

// machine is a headquarters whose admin line is open, and whose clock stands.
type machine struct {
	t            *testing.T
	data, config string
	id           *identity.Identity
	store        *store.Store
	now          time.Time
	line         *admin.Server
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	folder := t.TempDir()
	m := &machine{t: t, data: filepath.Join(folder, "data"), config: filepath.Join(folder, "dispatcher.yaml"), now: time.Now().Truncate(time.Second)}
	place := filepath.Join(folder, "identity")
	err := errors.Join(os.WriteFile(m.config, []byte("data_folder: data\nbroker: {anonymous: true}\n"), 0o600), os.Mkdir(m.data, 0o700),
		identity.Create(place, []string{"hq.example.com"}, m.now))
	if err == nil {
		m.id, err = identity.Open(place, m.now)
	}
	if err == nil {
		m.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(m.data, "muster.db")})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.store.Close() })
	if _, _, _, err := m.store.ReplacePlaces(t.Context(), "", []store.Place{{StoreID: "0001", Name: "a", TimeZone: "UTC"}}, m.now); err != nil {
		t.Fatal(err)
	}
	m.line, err = admin.New(admin.Config{DataFolder: m.data, Register: m.store, Places: m.store, Authority: m.id, EnrolmentURL: "https://hq.example.com:8443",
		RequestRotation: m.askRotation, Healthy: m.store.Health, Now: func() time.Time { return m.now }, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = m.line.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.line.Stop(context.WithoutCancel(t.Context())) })
	return m
}

func (m *machine) askRotation(ctx context.Context, by string, now bool) (approvalID, contentHash string, err error) {
	a, _, err := m.store.AddApproval(ctx, store.Approval{ApprovalID: "ap-1", Kind: store.ApprovalKeys, Requester: by, RequestID: "keys",
		RequestHash: "h", ContentHash: "abc123", Request: fmt.Sprintf(`{"now":%t}`, now), CreatedAt: m.now, ExpiresAt: m.now.Add(time.Hour)}, m.now)
	return a.ApprovalID, a.ContentHash, err
}

// enrol does with a token what a terminal does.
func (m *machine) enrol(token string) store.TerminalKey {
	m.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		m.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		m.t.Fatal(err)
	}
	draft, err := m.id.Draft(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), 0, m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	key, err := m.store.Enrol(m.t.Context(), identity.HashToken(token), store.TerminalKey{KeyID: draft.KeyID, Serial: draft.Serial,
		PublicKey: base64.StdEncoding.EncodeToString(public), IssuedAt: m.now, NotAfter: draft.NotAfter}, m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	return key
}

// ok runs a command that must succeed.
func (m *machine) ok(cmd *cobra.Command, args ...string) string {
	m.t.Helper()
	out, errs, code := run(m.t, cmd, args...)
	if code != 0 {
		m.t.Fatalf("%v: %d: %s", args, code, errs)
	}
	return out
}

func TestEnrollPrintsTheTokenOnceAndTheCommandForTheTerminal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	out := m.ok(house.EnrollCommand(), "0001", "pos-1", "--data", m.data)
	found := regexp.MustCompile(`\n\n  (mt1\.\S+)\n\nat the terminal, which asks for the token:\n\n  edge-agent enroll --headquarters https://hq\.example\.com:8443 --store 0001 --terminal pos-1 --identity identity --token-file -\n$`).FindStringSubmatch(out)
	if found == nil || !strings.Contains(out, m.now.Add(24*time.Hour).Local().Format("2006-01-02 15:04:05")) {
		t.Fatalf("got %s", out)
	}
	if key := m.enrol(found[1]); key.StoreID != "0001" || key.TerminalID != "pos-1" {
		t.Fatalf("the token lets in %+v", key)
	}
	var facts admin.Token
	if err := json.Unmarshal([]byte(m.ok(house.EnrollCommand(), "0001", "pos-2", "-c", m.config, "--json", "--valid", "2h")), &facts); err != nil {
		t.Fatal(err)
	}
	if key := m.enrol(facts.Token); key.TerminalID != "pos-2" || !facts.ExpiresAt.Equal(m.now.Add(2*time.Hour)) {
		t.Fatalf("got %+v, %+v", facts, key)
	}
}

func TestATokenInAFileIsShownNowhere(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := filepath.Join(t.TempDir(), "token")
	out := m.ok(house.EnrollCommand(), "0001", "pos-1", "--data", m.data, "--token-file", file, "--keep")
	token, err := trust.ReadPrivate(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "mt1.") || !strings.Contains(out, "is in "+file+"\n") {
		t.Errorf("said %s", out)
	}
	if _, errs, code := run(t, house.EnrollCommand(), "0001", "pos-1", "--data", m.data, "--token-file", file); code != screen.ExitRefused || !strings.Contains(errs, "exists already") {
		t.Errorf("a file that is there: %d, %s", code, errs)
	}
	if err := m.line.Stop(t.Context()); err != nil { // so that nobody can be asked
		t.Fatal(err)
	}
	if out := m.ok(house.EnrollCommand(), "0001", "pos-1", "--data", m.data, "--token-file", file, "--keep"); out != "" {
		t.Errorf("kept: %s", out)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(token) {
		t.Errorf("the token was replaced: %v", err)
	}
	if key := m.enrol(strings.TrimSuffix(string(token), "\n")); key.TerminalID != "pos-1" {
		t.Errorf("the token lets in %+v", key)
	}
}

func TestTerminalsAreListedAndRevoked(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if out := m.ok(house.TerminalsCommand(), "--data", m.data); out != "no terminal is enrolled\n" {
		t.Fatalf("got %s", out)
	}
	for _, terminal := range []string{"pos-1", "pos-2"} {
		var facts admin.Token
		if err := json.Unmarshal([]byte(m.ok(house.EnrollCommand(), "0001", terminal, "--data", m.data, "--json")), &facts); err != nil {
			t.Fatal(err)
		}
		m.enrol(facts.Token)
	}
	if out := m.ok(house.RevokeCommand(), "0001", "pos-2", "--data", m.data); out != "terminal pos-2 of store 0001 is revoked; certificates that are void: 1\n" {
		t.Fatalf("got %s", out)
	}
	out := m.ok(house.TerminalsCommand(), "-c", m.config)
	if !regexp.MustCompile(`(?m)^0001 +pos-1 +[0-9a-f]{16} .* valid$`).MatchString(out) || !regexp.MustCompile(`(?m)^0001 +pos-2 +[0-9a-f]{16} .* revoked 20`).MatchString(out) {
		t.Fatalf("got %s", out)
	}
	m.now = m.now.AddDate(0, 0, 91)
	if out := m.ok(house.TerminalsCommand(), "-c", m.config); !regexp.MustCompile(`(?m)^0001 +pos-1 .* ended$`).MatchString(out) {
		t.Fatalf("got %s", out)
	}
	var all admin.Terminals
	if err := json.Unmarshal([]byte(m.ok(house.TerminalsCommand(), "--data", m.data, "--json")), &all); err != nil || len(all.Terminals) != 2 ||
		!all.Terminals[0].RevokedAt.IsZero() || all.Terminals[1].RevokedAt.IsZero() {
		t.Fatalf("got %+v, %v", all, err)
	}
	if _, errs, code := run(t, house.RevokeCommand(), "0001", "pos-2", "--data", m.data); code != screen.ExitRefused ||
		!strings.Contains(errs, "refused: NOT_FOUND") || !strings.Contains(errs, "hint: dispatcher terminals lists them") {
		t.Fatalf("a second time: %d, %s", code, errs)
	}
}

func TestKeysAreListedAndARotationWaitsForASecondPerson(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	out := m.ok(house.KeysCommand(), "rotate", "--now", "--data", m.data)
	if !strings.Contains(out, "approval ap-1 is asked for; nothing was changed yet\ncontent hash abc123\n") || !strings.Contains(out, "dispatcher approve ap-1") {
		t.Fatalf("got %s", out)
	}
	if a, err := m.store.GetApproval(t.Context(), "ap-1"); err != nil || a.Requester != "host:"+admin.Actor() || a.Request != `{"now":true}` {
		t.Fatalf("asked by %+v, %v", a, err)
	}
	first := m.id.Signer(m.now).KeyID()
	if _, err := m.id.Replace(identity.Rotation{}, m.now); err != nil {
		t.Fatal(err)
	}
	out = m.ok(house.KeysCommand(), "list", "--data", m.data)
	if !strings.HasPrefix(out, "version 2\n") || !regexp.MustCompile(`(?m)^`+first+` .* signs$`).MatchString(out) || strings.Count(out, " waits\n") != 1 {
		t.Fatalf("before the switch: %s", out)
	}
	m.now = m.now.Add(25 * time.Hour)
	if out = m.ok(house.KeysCommand(), "list", "--data", m.data); !regexp.MustCompile(`(?m)^`+first+` .* believed$`).MatchString(out) || strings.Count(out, " signs\n") != 1 {
		t.Fatalf("after the switch: %s", out)
	}
	m.now = m.now.Add(24 * time.Hour)
	if out = m.ok(house.KeysCommand(), "list", "--data", m.data); !regexp.MustCompile(`(?m)^` + first + ` .* ended$`).MatchString(out) {
		t.Fatalf("after the overlap: %s", out)
	}
	var all admin.Keys
	if err := json.Unmarshal([]byte(m.ok(house.KeysCommand(), "list", "--data", m.data, "--json")), &all); err != nil || len(all.Keys) != 2 || all.Signs == first {
		t.Fatalf("got %+v, %v", all, err)
	}
}

func TestCommandsForThisMachineSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	nowhere := t.TempDir()
	for name, c := range map[string]struct {
		cmd  *cobra.Command
		args []string
		code int
		want string
	}{
		"not running":   {house.TerminalsCommand(), []string{"--data", nowhere}, screen.ExitNoAnswer, "headquarters is not running with the data folder " + nowhere},
		"both":          {house.TerminalsCommand(), []string{"--data", nowhere, "-c", m.config}, screen.ExitRefused, "none of the others can be"},
		"no file":       {house.TerminalsCommand(), []string{"-c", filepath.Join(nowhere, "x.yaml")}, screen.ExitRefused, "cannot read the configuration"},
		"unknown store": {house.EnrollCommand(), []string{"0002", "pos-1", "--data", m.data}, screen.ExitRefused, "refused: UNKNOWN_STORE: store 0002 is not on the list"},
		"no terminal":   {house.EnrollCommand(), []string{"0001", "--data", m.data}, screen.ExitRefused, "enroll takes a store and a terminal, not 1 arguments"},
		"bad id":        {house.RevokeCommand(), []string{"0001", "pos/1", "--data", m.data}, screen.ExitRefused, `terminal "pos/1" must be`},
		"no time":       {house.EnrollCommand(), []string{"0001", "pos-1", "--data", m.data, "--valid", "0s"}, screen.ExitRefused, "--valid 0s must be 1m to 168h"},
		"keep what":     {house.EnrollCommand(), []string{"0001", "pos-1", "--data", m.data, "--keep"}, screen.ExitRefused, "--keep needs --token-file"},
		"too long":      {house.EnrollCommand(), []string{"0001", "pos-1", "--data", m.data, "--valid", "200h"}, screen.ExitRefused, "one minute to seven days"},
	} {
		_, errs, code := run(t, c.cmd, c.args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", name, code, errs)
		}
	}
	if err := m.line.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := run(t, house.TerminalsCommand(), "--data", m.data); code != screen.ExitNoAnswer || !strings.Contains(errs, "start it with dispatcher serve") {
		t.Errorf("stopped: %d, %s", code, errs)
	}
}

// TestTheHealthOfThisMachineNeedsNoUser asks the dispatcher's own line.
func TestTheHealthOfThisMachineNeedsNoUser(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if out, errs, code := shell(t, "health", "--data", m.data); code != 0 || out+errs != "" {
		t.Errorf("code %d, %q, %q; want 0 and not a word", code, out, errs)
	}
	if out, _, code := shell(t, "health", "--data", m.data, "--json"); code != 0 || !strings.Contains(out, `"ok": true`) {
		t.Errorf("code %d, %q", code, out)
	}
	if _, errs, code := shell(t, "health", "--data", m.data, "--broker-only"); code != 2 || !strings.Contains(errs, "none of the others can be") {
		t.Errorf("both: code %d, %q", code, errs)
	}
	if err := m.line.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := shell(t, "health", "--data", m.data); code != 5 || !strings.Contains(errs, admin.ErrNotRunning.Error()) {
		t.Errorf("stopped: code %d, %q; want 5 and that it does not run", code, errs)
	}
}
