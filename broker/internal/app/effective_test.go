package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/broker/internal/app"
	"muster/internal/settings"
)

// TestWhatIsPrintedIsTheConfigurationAgain, read in another folder and from another.
func TestWhatIsPrintedIsTheConfigurationAgain(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "hq"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"least.yaml": "broker: {users_file: users.yaml}\n", "most.yaml": `broker:
  users_file: ../users.yaml
  listeners:
    tcp: {address: ""}
    tls: {address: "0.0.0.0:8883", cert_file: broker.crt, key_file: broker.key, client_ca_file: ca.crt, crl_file: crl.pem}
  limits: {max_keepalive: 10s, session_expiry: 90m}
log: {level: debug, format: text}
`} {
		if err := os.WriteFile(filepath.Join(folder, "hq", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	printed := func(path string) ([]settings.Effective, []byte) {
		t.Helper()
		cfg, err := app.LoadConfig(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := cfg.Effective()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := settings.WriteEffective(&out, all); err != nil {
			t.Fatal(err)
		}
		return all, out.Bytes()
	}
	for name, users := range map[string]string{"least.yaml": filepath.Join(folder, "hq", "users.yaml"), "most.yaml": filepath.Join(folder, "users.yaml")} {
		t.Chdir(folder)
		before, text := printed("hq/" + name)
		t.Chdir(elsewhere)
		if err := os.WriteFile("again.yaml", text, 0o600); err != nil {
			t.Fatal(err)
		}
		after, _ := printed("again.yaml")
		if unlike := settings.Changed(before, after); len(unlike) > 0 {
			t.Errorf("%s: read back, %v differ:\n%s", name, unlike, text)
		}
		for _, line := range []string{`  users_file: "` + users + `" # hq/` + name, `      min_tls: "1.3" # default`} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s: no line %q in\n%s", name, line, text)
			}
		}
	}
}
