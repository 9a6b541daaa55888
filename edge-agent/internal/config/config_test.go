package config_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/edge-agent/internal/config"
	"muster/internal/settings"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBuiltInDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c, err := config.Load("", config.Overrides{Store: "0001"})
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := config.Load("../../../configs/edge-agent.yaml", config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Store != "0001" || c.MaxParallel != 1 || c.Broker.URL != "mqtt://127.0.0.1:1883" || shipped.Store != c.Store {
		t.Errorf("got %+v", c)
	}
	if c.User() != "0001/pos-1" || c.Collect.TimeZone != "Asia/Shanghai" {
		t.Errorf("user %s, zone of the collector %s", c.User(), c.Collect.TimeZone)
	}
}

func TestFileOverDefaultsAndFlagsOverFile(t *testing.T) {
	t.Parallel()
	path := write(t, `store: "007"
terminal: back-office
broker: {url: "mqtts://hq.example:8883", user: u, password: p}
work_folder: data
collect: {logs: ["logs/*.log"]}
executors:
  - {type: price_check, version: 2, command: [./check, --json], folder: bin}
`)
	c, err := config.Load(path, config.Overrides{Terminal: "pos-9", BrokerURL: "ws://127.0.0.1:80/mqtt", WorkFolder: "here"})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(path)
	if c.Store != "007" || c.Terminal != "pos-9" || c.Broker.URL != "ws://127.0.0.1:80/mqtt" || c.WorkFolder != "here" || c.TopicRoot != "muster/v1" {
		t.Errorf("got %+v", c)
	}
	if c.Collect.Logs[0] != filepath.Join(folder, "logs/*.log") || c.Executors[0].Folder != filepath.Join(folder, "bin") {
		t.Errorf("paths are not relative to the file: %v, %v", c.Collect.Logs, c.Executors)
	}
}

func TestPasswordFile(t *testing.T) {
	t.Parallel()
	path := write(t, "broker: {password_file: secret}\n")
	if _, err := config.Load(path, config.Overrides{Store: "1"}); err == nil || !strings.HasPrefix(err.Error(), path+":1: broker.password_file: ") {
		t.Errorf("a missing file: %v", err)
	}
	secret := filepath.Join(filepath.Dir(path), "secret")
	if err := os.WriteFile(secret, []byte("\ufeffs e c r e t\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, config.Overrides{Store: "1"})
	if err != nil || c.Password() != "s e c r e t" || c.Broker.Password != "" {
		t.Errorf("got %q, %v", c.Password(), err)
	}
}

func TestMistakesStopTheStartWithLineAndKey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"stoer: \"1\"\n":                               `:1: unknown field "stoer"`,
		"store: 007\n":                                 ":1: store: must be a text, in quotes",
		"store: \"a b\"\n":                             ":1: store: must be 1 to 63 of",
		"\nterminal: \"\"\n":                           ":2: terminal: must be 1 to 63 of",
		"time_zone: Local\n":                           ":1: time_zone: must be a zone",
		"time_zone: Mars/Base\n":                       ":1: time_zone: must be a zone",
		"topic_root: a//b\n":                           ":1: topic_root: each level",
		"max_parallel: 0\n":                            ":1: max_parallel: must lie between 1 and 64, not 0",
		"max_parallel: 1.5\n":                          ":1: max_parallel: must be a whole number",
		"work_folder: \"\"\n":                          ":1: work_folder: is required",
		"broker:\n  url: http://x\n":                   ":2: broker.url: must be a URL",
		"broker:\n  url: mqtt://\n":                    ":2: broker.url: must be a URL",
		"broker:\n  url: mqtt://u:p@x\n":               ":2: broker.url: must hold no password",
		"broker:\n  ca_file: nothing.pem\n":            ":2: broker.ca_file: cannot be read",
		"broker:\n  password: a\n  password_file: b\n": ":3: broker.password_file: must be empty",
		"broker:\n  min_tls: \"1.1\"\n":                ":2: broker.min_tls: must be \"1.3\" or \"1.2\"",
		"broker:\n  min_tls: 1.2\n":                    ":2: broker.min_tls: must be a text",
		"identity: {folder: id}\nbroker:\n  url: mqtt://hq\n  allow_plaintext: true\n":               ":3: broker.url: must begin with mqtts:// or wss://",
		"identity: {folder: id}\nbroker:\n  password: x\n":                                           ":3: broker.password: must be empty with identity.folder",
		"identity: {folder: id}\nbroker:\n  password_file: x\n":                                      ":3: broker.password_file: must be empty with identity.folder",
		"identity:\n  folder: id\n  token_file: t\n":                                                 ":3: identity.token_file: needs identity.headquarters",
		"identity:\n  folder: id\n  headquarters: https://hq\n":                                      ":3: identity.headquarters: needs identity.token_file",
		"identity:\n  headquarters: https://hq\n  token_file: t\n":                                   ":3: identity.token_file: needs identity.folder",
		"identity:\n  folder: id\n  headquarters: http://hq\n  token_file: t\n":                      ":3: identity.headquarters: cannot enrol at",
		"refuse:\n  min_battery_pct: 101\n":                                                          ":2: refuse.min_battery_pct: must lie between",
		"refuse:\n  max_load: .nan\n":                                                                ":2: refuse.max_load: must lie between",
		"refuse:\n  min_disk_free_mb: -1\n":                                                          ":2: refuse.min_disk_free_mb: must lie between 0 and",
		"collect:\n  logs: [\"[\"]\n":                                                                ":2: collect.logs: cannot use logs[0]",
		"collect:\n  max_result_bytes: 1\n":                                                          ":2: collect.max_result_bytes: cannot use",
		"executors:\n- {type: a b, version: 1, command: [x]}\n":                                      ":2: executors[0].type: must be a job's name",
		"executors:\n- {type: a, version: 0, command: [x]}\n":                                        ":2: executors[0].version: must lie between 1 and",
		"executors:\n- {type: a, version: 1, command: []}\n":                                         ":2: executors[0].command: must name a program",
		"executors:\n- {type: a, version: 1, command: [x]}\n- {type: a, version: 1, command: [y]}\n": ":3: executors[1].type: a version 1 has",
		"executors:\n- {type: a, version: 1, command: [x], max_output_bytes: -1}":                    ":2: executors[0].max_output_bytes: must lie",
		"broker:\n  url: mqtt://hq\n":                                                                ":2: broker.url: mqtt://hq carries password and answers in clear: write mqtts:// or wss://, or say broker.allow_plaintext: true",
		"broker:\n  url: ws://10.0.0.7/mqtt\n":                                                       ":2: broker.url: ws://10.0.0.7/mqtt carries password",
		"broker:\n  url: mqtts://hq:99999\n":                                                         ":2: broker.url: \"mqtts://hq:99999\" has no port from 1 to 65535",
		"broker:\n  url: mqtts://hq:0\n":                                                             ":2: broker.url: \"mqtts://hq:0\" has no port from 1 to 65535",
		"broker:\n  url: mqtts://256.1.1.1\n":                                                        ":2: broker.url: \"mqtts://256.1.1.1\" names neither an IP address nor a host",
		"broker:\n  url: mqtts://hq/muster\n":                                                        ":2: broker.url: \"mqtts://hq/muster\" says more than where; write mqtts://hq",
		"broker:\n  user: \"a\\nb\"\n":                                                               ":2: broker.user: must be at most 256 bytes",
		"broker:\n  password: \"a\\tb\"\n":                                                           ":2: broker.password: must be one line",
		"work_folder: /proc/x\n":                                                                     ":1: work_folder: \"/proc/x\" is in /proc, which is the system's own",
		"work_folder: /\n":                                                                           ":1: work_folder: \"/\" is the top of a disk",
		"labels: {\"a b\": x}\n":                                                                     ":1: labels: \"a b\" is no name of a label",
		"labels: {a: \"x\\ny\"}\n":                                                                   ":1: labels: the value of a must be at most 200 characters",
		"collect:\n  max_files: 0\n":                                                                 ":2: collect.max_files: 0 collects nothing",
		"collect:\n  max_read_bytes: 0\n":                                                            ":2: collect.max_read_bytes: 0 collects nothing",
		"refuse:\n  min_disk_free_mb: 9000000000000\n":                                               ":2: refuse.min_disk_free_mb: must lie between 0 and 1099511627776",
		"executors:\n- {type: a, version: 2000000, command: [x]}\n":                                  ":2: executors[0].version: must lie between 1 and 1000000",
		"terminal: pos-1\n":                                                                          ": store: is missing: write the id that headquarters' register has for this store",
		"store: \"\"\n":                                                                              ":1: store: is missing",
		"log: {level: loud}\n":                                                                       ":1: log.level: must be debug, info, warn or error",
		"log: {format: xml}\n":                                                                       ":1: log.format: must be text or json",
	} {
		path := write(t, text)
		if _, err := config.Load(path, config.Overrides{}); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestIdentityNeedsTLSUnlessTheBrokerIsHere(t *testing.T) {
	t.Parallel()
	for _, broker := range []string{"mqtts://hq.example", "wss://hq.example/mqtt", "mqtt://127.0.0.1:1883", "mqtt://localhost", "ws://[::1]:80"} {
		path := write(t, "identity: {folder: id}\nbroker: {url: \""+broker+"\"}\n")
		c, err := config.Load(path, config.Overrides{Store: "1"})
		if err != nil {
			t.Errorf("%s: %v", broker, err)
			continue
		}
		if c.Identity.Folder != filepath.Join(filepath.Dir(path), "id") {
			t.Errorf("folder %s is not relative to the file", c.Identity.Folder)
		}
	}
}

func TestTLSIsOfTheNewestVersionUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint16{
		"store: \"1\"\n":                     tls.VersionTLS13,
		"broker: {min_tls: \"1.2\"}\n":       tls.VersionTLS12,
		"broker: {min_tls: \"1.3\"}\n":       tls.VersionTLS13,
		"broker: {user: somebody}\nstore: a": tls.VersionTLS13,
	} {
		c, err := config.Load(write(t, text), config.Overrides{Store: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.TLS(); err != nil || got.MinVersion != want {
			t.Errorf("%q: at least %x, %v; want %x", text, got.MinVersion, err, want)
		}
	}
}

// TestWhoseTerminalItIsHasToBeSaid: nothing else may say it than file, environment and
// command line, since two terminals with one id push each other out.
func TestWhoseTerminalItIsHasToBeSaid(t *testing.T) {
	t.Parallel()
	if _, err := config.Load("", config.Overrides{}); err == nil || !strings.HasPrefix(err.Error(), "store is missing: ") {
		t.Errorf("the defaults: %v", err)
	}
	for _, path := range []string{write(t, "terminal: pos1\n"), write(t, "broker: {allow_plaintext: true, url: \"mqtt://hq\"}\n")} {
		if _, err := config.Load(path, config.Overrides{}); err == nil || !strings.HasPrefix(err.Error(), path+": store: is missing") {
			t.Errorf("%v", err)
		}
		if c, err := config.Load(path, config.Overrides{Over: []settings.Value{{Key: "store", Text: "A1", From: "environment MUSTER_STORE"}}}); err != nil || c.Store != "A1" {
			t.Errorf("%v", err)
		}
	}
}
