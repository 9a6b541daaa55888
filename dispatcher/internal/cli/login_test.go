package cli_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/broker/server"
	"muster/broker/server/users"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/identity"
)

// TestACertificateLogsIn goes to a real broker that believes headquarters'
// authority, as a user who has no password.
func TestACertificateLogsIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, usersFile := filepath.Join(dir, "identity"), filepath.Join(dir, "users.yaml")
	if err := identity.Create(folder, []string{"127.0.0.1"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	text := "users:\n  - {name: wang, role: operator, certificate: true}\nterminals: []\n"
	if err := os.WriteFile(usersFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(folder, "ca.crt")
	cfg := server.DefaultConfig()
	cfg.UsersFile, cfg.Listeners.TCP.Address = usersFile, ""
	cfg.Listeners.TLS = server.ListenerConfig{Address: "127.0.0.1:0", CertFile: filepath.Join(folder, "broker.crt"),
		KeyFile: filepath.Join(folder, "broker.key"), ClientCAFile: ca, CRLFile: filepath.Join(folder, "crl.pem")}
	broker := serving(t, cfg)

	cert, key := userCertificate(t, folder, dir, "wang")
	other, otherKey := userCertificate(t, folder, dir, "li")
	for name, c := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"their own":     {[]string{"--cert", cert, "--cert-key", key}, 0, ""},
		"none":          {nil, screen.ExitRefused, "the broker refuses user wang"},
		"of another":    {[]string{"--cert", other, "--cert-key", otherKey}, screen.ExitRefused, "the broker refuses user wang"},
		"another's key": {[]string{"--cert", cert, "--cert-key", otherKey}, 2, "cannot use --cert " + cert + " with --cert-key " + otherKey},
	} {
		args := append([]string{"health", "--broker-only", "--broker", "mqtts://" + broker.Addr("tls").String(), "--ca-file", ca, "--user", "wang"}, c.args...)
		if _, errs, code := shell(t.Context(), t, "", args...); code != c.code || !strings.Contains(errs, c.say) {
			t.Errorf("%s: %d, %q", name, code, errs)
		}
	}
}

// TestANameThatIsLockedIsRefused, even with the right password, and not taken for a broker
// that cannot be reached.
func TestANameThatIsLockedIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	right, wrong, usersFile := filepath.Join(dir, "right"), filepath.Join(dir, "wrong"), filepath.Join(dir, "users.yaml")
	hash, err := users.HashPassword([]byte("correct horse battery"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{right: "correct horse battery", wrong: "another horse battery", usersFile: "users:\n  - {name: wang, role: operator, password: \"" + hash + "\"}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := server.DefaultConfig()
	cfg.UsersFile, cfg.Listeners.TCP.Address = usersFile, "127.0.0.1:0"
	broker := serving(t, cfg)
	login := func(password string) (said string, code int) {
		_, said, code = shell(t.Context(), t, "", "health", "--broker-only", "--broker", "mqtt://"+broker.Addr("tcp").String(), "--user", "wang", "--password-file", password)
		return said, code
	}
	const locked = "the broker has locked user wang out for now: too many failed logins: wait some minutes"
	said, code := login(wrong)
	for tries := 1; !strings.Contains(said, locked) && tries < 100; tries++ {
		if code != screen.ExitRefused {
			t.Fatalf("a wrong password: %d, %s", code, said)
		}
		said, code = login(wrong)
	}
	if said, code = login(right); code != screen.ExitRefused || !strings.Contains(said, locked) {
		t.Errorf("locked: %d, %s", code, said)
	}
}

// userCertificate makes a key and the user's certificate for it, in files.
func userCertificate(t *testing.T, folder, dir, name string) (cert, key string) {
	t.Helper()
	if _, errs, code := shell(t.Context(), t, "", "certify", name, "--identity", folder, "--out", dir); code != 0 {
		t.Fatal(errs)
	}
	return filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
}

// serving starts a broker.
func serving(t *testing.T, cfg server.Config) *server.Server {
	t.Helper()
	broker, err := server.New(cfg, server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Stop(context.WithoutCancel(t.Context())) })
	return broker
}
