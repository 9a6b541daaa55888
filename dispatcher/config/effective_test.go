package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/config"
	"muster/internal/settings"
)

// TestWhatIsPrintedIsTheConfigurationAgain, read in another folder and from another.
func TestWhatIsPrintedIsTheConfigurationAgain(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "hq"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"secret": "hunter2pass\n", "least.yaml": "jobs_folder: jobs\n",
		"embedded.yaml": `data_folder: data
identity: {folder: identity, broker_folder: copies}
broker:
  anonymous: false
  users_file: users.yaml
  listeners: {tcp: {address: ""}, tls: {address: "0.0.0.0:8883"}, ws: {address: "127.0.0.1:0"}}
  limits: {max_keepalive: 10s}
enrolment: {address: "0.0.0.0:8443"}
admission: {grants_per_second: 0.5}
`, "mqtt.yaml": "stores_file: stores.csv\ntransport: mqtt\nmqtt: {url: \"mqtts://hq\", password_file: secret, users_file: ../users.yaml}\n"} {
		if err := os.WriteFile(filepath.Join(folder, "hq", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	printed := func(path string) ([]settings.Effective, []byte) {
		t.Helper()
		cfg, err := config.Load(path)
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
	for name, line := range map[string]string{"least.yaml": `jobs_folder: "` + filepath.Join(folder, "hq", "jobs") + `" # hq/least.yaml:1`,
		"embedded.yaml": `      min_tls: "1.3" # default`, "mqtt.yaml": `  users_file: "` + filepath.Join(folder, "users.yaml") + `" # hq/mqtt.yaml:3`} {
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
		if !strings.Contains(string(text), line+"\n") || strings.Contains(string(text), "hunter2pass") {
			t.Errorf("%s: no line %q, or a secret, in\n%s", name, line, text)
		}
	}
}
