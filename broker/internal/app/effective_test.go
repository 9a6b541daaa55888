package app_test

import (
	"path/filepath"
	"strings"
	"testing"

	"muster/broker/internal/app"
	"muster/tests/programs"
)

// TestWhatIsPrintedIsTheConfigurationAgain, read in another folder and from another.
func TestWhatIsPrintedIsTheConfigurationAgain(t *testing.T) {
	folder := t.TempDir()
	programs.WriteAll(t, filepath.Join(folder, "hq"), map[string]string{"least.yaml": "broker: {users_file: users.yaml}\n", "most.yaml": `broker:
  users_file: ../users.yaml
  listeners:
    tcp: {address: ""}
    tls: {address: "0.0.0.0:8883", cert_file: broker.crt, key_file: broker.key, client_ca_file: ca.crt, crl_file: crl.pem}
  limits: {max_keepalive: 10s, session_expiry: 90m}
log: {level: debug, format: text}
`})
	for name, users := range map[string]string{"least.yaml": filepath.Join(folder, "hq", "users.yaml"), "most.yaml": filepath.Join(folder, "users.yaml")} {
		_, _, text := programs.Again(t, app.LoadConfig, folder, "hq/"+name)
		for _, line := range []string{`  users_file: "` + users + `" # hq/` + name, `      min_tls: "1.3" # default`} {
			if !strings.Contains(text, line) {
				t.Errorf("%s: no line %q in\n%s", name, line, text)
			}
		}
	}
}
