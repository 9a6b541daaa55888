package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"muster/dispatcher/config"
	"muster/tests/programs"
)

// TestWhatIsPrintedIsTheConfigurationAgain, read in another folder and from another.
func TestWhatIsPrintedIsTheConfigurationAgain(t *testing.T) {
	folder := t.TempDir()
	programs.WriteAll(t, filepath.Join(folder, "hq"), map[string]string{"secret": "hunter2pass\n", "least.yaml": "jobs_folder: jobs\n",
		"embedded.yaml": `data_folder: data
identity: {folder: identity, broker_folder: copies}
broker:
  anonymous: false
  users_file: users.yaml
  listeners: {tcp: {address: ""}, tls: {address: "0.0.0.0:8883"}, ws: {address: "127.0.0.1:0"}}
  limits: {max_keepalive: 10s}
enrolment: {address: "0.0.0.0:8443"}
admission: {grants_per_second: 0.5}
`, "mqtt.yaml": "stores_file: stores.csv\ntransport: mqtt\nmqtt: {url: \"mqtts://hq\", password_file: secret, users_file: ../users.yaml}\n"})
	for name, line := range map[string]string{"least.yaml": `jobs_folder: "` + filepath.Join(folder, "hq", "jobs") + `" # hq/least.yaml:1`,
		"embedded.yaml": `      min_tls: "1.3" # default`, "mqtt.yaml": `  users_file: "` + filepath.Join(folder, "users.yaml") + `" # hq/mqtt.yaml:3`} {
		_, _, text := programs.Again(t, config.Load, folder, "hq/"+name)
		if !strings.Contains(text, line+"\n") || strings.Contains(text, "hunter2pass") {
			t.Errorf("%s: no line %q, or a secret, in\n%s", name, line, text)
		}
	}
}
