package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/broker/internal/app"
	"muster/broker/server"
	"muster/broker/server/users"
)

const shipped = "../../../configs/"

// TestShippedConfigurationSaysTheDefaults: what stands in the file is what holds
// without it.
func TestShippedConfigurationSaysTheDefaults(t *testing.T) {
	cfg, err := app.LoadConfig(shipped + "broker.yaml")
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "broker.yaml")
	if err := os.WriteFile(empty, []byte("broker:\n  users_file: users.yaml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare, err := app.LoadConfig(empty)
	if err != nil {
		t.Fatal(err)
	}
	bare.Broker.UsersFile = cfg.Broker.UsersFile
	// The shortest keep alive follows the longest one when it is absent.
	bare.Broker.Limits.MinKeepalive = cfg.Broker.Limits.MinKeepalive
	if cfg.Broker != bare.Broker || cfg.Log != bare.Log {
		t.Errorf("file %+v\nbare %+v", cfg, bare)
	}
}

// uncommented is a shipped file with the comments of some lines taken away.
func uncommented(t *testing.T, name, from, until string) string {
	t.Helper()
	data, err := os.ReadFile(shipped + name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), from)
	block, after, ends := strings.Cut(rest, until)
	if !found || !ends {
		t.Fatalf("%s: no lines from %q to %q", name, from, until)
	}
	for line := range strings.Lines(from + block) {
		before += strings.Replace(line, "# ", "", 1)
	}
	return before + until + after
}

func TestCommentedExamplesOfTheShippedFilesLoad(t *testing.T) {
	text := uncommented(t, "broker.yaml", "    # tls:\n", "  # A listener without TLS")
	path := filepath.Join(t.TempDir(), "broker.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := app.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(path)
	want := server.ListenerConfig{
		Address: "0.0.0.0:8883", CertFile: filepath.Join(folder, "tls/broker.crt"), KeyFile: filepath.Join(folder, "tls/broker.key"),
		MinTLS: "1.3", ClientCAFile: filepath.Join(folder, "tls/ca.crt"), CRLFile: filepath.Join(folder, "tls/crl.pem"),
	}
	if got := cfg.Broker.Listeners.TLS; got != want {
		t.Errorf("got %+v", got)
	}
}

func TestCommentedUsersOfTheShippedFileLoad(t *testing.T) {
	hash, err := users.HashPassword([]byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	text := uncommented(t, "users.yaml", "# users:\n", "users: []\n")
	text = strings.Replace(text, "users: []\nterminals: []\n", "", 1)
	text = strings.ReplaceAll(text, "$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>", hash)
	path := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	book, err := users.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	alice, _ := book.Get("alice")
	dora, _ := book.Get("dora")
	if len(book.List()) != 2 || len(alice.Jobs) != 1 || len(alice.Stores.Stores) != 2 || !dora.Certificate {
		t.Errorf("alice %+v, dora %+v", alice, dora)
	}
}

func TestOpenListenerIsRefusedWithFileLineAndKey(t *testing.T) {
	const open = "broker:\n  users_file: users.yaml\n  listeners:\n    tcp:\n      address: 0.0.0.0:1883\n"
	for name, c := range map[string]struct{ text, want string }{
		"tcp":       {open, `broker.yaml:5: broker.listeners.tcp.address: "0.0.0.0:1883" is not a loopback address, and without TLS`},
		"ws":        {"broker:\n  users_file: users.yaml\n  listeners:\n    ws:\n      address: :8083\n", `broker.yaml:5: broker.listeners.ws.address: ":8083" is not a loopback address`},
		"allowed":   {open + "  allow_plaintext: true\n", ""},
		"authority": {"broker:\n  users_file: users.yaml\n  listeners:\n    tcp:\n      client_ca_file: ca.crt\n      address: 127.0.0.1:0\n", "broker.yaml:5: broker.listeners.tcp.client_ca_file: a listener without cert_file and key_file checks no certificates"},
		"list":      {"broker:\n  users_file: users.yaml\n  listeners:\n    tls:\n      address: 127.0.0.1:0\n      cert_file: a\n      key_file: b\n      crl_file: c\n", "broker.yaml:8: broker.listeners.tls.crl_file: needs client_ca_file"},
		"ban":       {"broker:\n  users_file: users.yaml\n  limits:\n    flapping_ban: 1ms\n", "broker.yaml:4: broker.limits.flapping_ban: 1ms is not between 1s and 24h0m0s"},
		"flapping":  {"broker:\n  users_file: users.yaml\n  limits:\n    flapping_connects: -1\n", "broker.yaml:4: broker.limits.flapping_connects: -1 is not between 1 and 100000"},
		"keepalive": {"broker:\n  users_file: users.yaml\n  limits:\n    min_keepalive: 6m\n", "broker.yaml:4: broker.limits.min_keepalive: 6m0s is not between 1s and 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "broker.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := app.LoadConfig(path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestHashPasswordRefusesWhatEverybodyGuesses(t *testing.T) {
	var out, errs bytes.Buffer
	if code := app.Run(t.Context(), "v1", []string{"hash-password"}, strings.NewReader("Password\n"), &out, &errs, nil); code != 1 ||
		out.Len() > 0 || !strings.Contains(errs.String(), "everybody guesses: choose another") {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
}
