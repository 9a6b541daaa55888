package app_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/broker/internal/app"
	"muster/broker/server/users"
	"muster/tests/programs"
)

func TestShippedConfigurationLoads(t *testing.T) {
	cfg, err := app.LoadConfig("../../../configs/broker.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Broker.Anonymous || cfg.Broker.Listeners.TCP.Address != "127.0.0.1:1883" {
		t.Errorf("not the safe defaults: %+v", cfg.Broker)
	}
	book, err := users.Load(cfg.Broker.UsersFile)
	if err != nil {
		t.Fatal(err)
	}
	if known := book.List(); len(known) > 0 {
		t.Errorf("%d users with a password that everybody knows", len(known))
	}
}

func TestWrongConfigurationNamesFileLineAndKey(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":     {"broker:\n  anonymous: true\n  colour: red\n", `broker.yaml:3: unknown field "colour"`},
		"wrong kind":      {"broker:\n  anonymous: maybe\n", "broker.yaml:2: "},
		"missing unit":    {"broker:\n  anonymous: true\n  limits:\n    max_keepalive: 300\n", "broker.yaml:4: "},
		"out of range":    {"broker:\n  anonymous: true\n  limits:\n    max_keepalive: 1s\n", "broker.yaml:4: broker.limits.max_keepalive: 1s is not between 5s and 12h0m0s"},
		"no users":        {"broker:\n  anonymous: false\n", "broker.yaml: broker.users_file: is missing"},
		"both":            {"broker:\n  anonymous: true\n  users_file: u\n", "broker.yaml:3: broker.users_file: cannot be combined"},
		"open anonymous":  {"broker:\n  anonymous: true\n  listeners:\n    tcp:\n      address: 0.0.0.0:1883\n", "broker.yaml:5: broker.listeners.tcp.address: \"0.0.0.0:1883\" is not a loopback"},
		"every interface": {"broker:\n  anonymous: true\n  listeners:\n    tcp:\n      address: :1883\n", "broker.yaml:5: broker.listeners.tcp.address"},
		"root":            {"broker:\n  anonymous: true\n  topic_root: a/+/b\n", "broker.yaml:3: broker.topic_root"},
		"log":             {"broker:\n  anonymous: true\nlog:\n  format: xml\n", `broker.yaml:4: log.format: "xml" is neither json nor text`},
		"port":            {"broker:\n  anonymous: true\n  listeners:\n    tcp:\n      address: 127.0.0.1:99999\n", "broker.yaml:5: broker.listeners.tcp.address: \"127.0.0.1:99999\" has no port from 0 (any) to 65535\n   5 |       address: 127.0.0.1:99999\n     |                ^"},
		"one port twice":  {"broker:\n  anonymous: true\n  listeners:\n    tcp:\n      address: 127.0.0.1:1883\n    ws:\n      address: localhost:1883\n", "broker.yaml:7: broker.listeners.ws.address: \"localhost:1883\" is where listeners.tcp listens"},
		"no deadline":     {"broker:\n  anonymous: true\n  limits:\n    connect_deadline: 0s\n", "broker.yaml:4: broker.limits.connect_deadline: 0s is not between 100ms and 1m0s"},
		"below zero":      {"broker:\n  anonymous: true\n  limits:\n    write_deadline: -1s\n", "broker.yaml:4: broker.limits.write_deadline: -1s is not between"},
		"no keepalive":    {"broker:\n  anonymous: true\n  limits:\n    min_keepalive: 0s\n", "broker.yaml:4: broker.limits.min_keepalive: 0s is not between 1s and 5m0s"},
		"no connections":  {"broker:\n  anonymous: true\n  limits:\n    max_connections: 0\n", "broker.yaml:4: broker.limits.max_connections: 0 is not between 1 and 1000000"},
		"no ban":          {"broker:\n  anonymous: true\n  limits:\n    flapping_ban: 0s\n", "broker.yaml:4: broker.limits.flapping_ban: 0s is not between"},
		"no root":         {"broker:\n  anonymous: true\n  topic_root: \"\"\n", "broker.yaml:3: broker.topic_root: \"\" is not a topic root"},
		"version of off":  {"broker:\n  anonymous: true\n  listeners:\n    tls:\n      min_tls: \"1.1\"\n", "broker.yaml:5: broker.listeners.tls.min_tls: \"1.1\" is neither 1.2 nor 1.3"},
		"no listener":     {"broker:\n  anonymous: true\n  listeners:\n    tcp:\n      address: \"\"\n", "broker.yaml:4: broker.listeners: none has an address"},
		"not yaml":        {"broker: [\n", "broker.yaml:"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "broker.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := app.LoadConfig(path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestHashPasswordPrintsWhatAUsersFileTakes(t *testing.T) {
	var out, errs bytes.Buffer
	if code := app.Run(t.Context(), "v1", []string{"hash-password"}, strings.NewReader("correct horse\r\n"), &out, &errs, nil); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	hash, err := users.ParseHash(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if !hash.Matches([]byte("correct horse")) || hash.Matches([]byte("correct horse\r")) {
		t.Error("the hash is not of the password without its line break")
	}
	for _, short := range []string{"", "\n", "1234567\n"} {
		if code := app.Run(t.Context(), "v1", []string{"hash-password"}, strings.NewReader(short), &out, &errs, nil); code != 1 {
			t.Errorf("%q: exit %d", short, code)
		}
	}
}

func TestRunServesUntilSignalled(t *testing.T) {
	programs.BareEnvironment(t)
	t.Setenv("MUSTER_BROKER_LISTENERS_TCP_ADRESS", "127.0.0.1:1")
	path := filepath.Join(t.TempDir(), "broker.yaml")
	text := "broker:\n  anonymous: true\n  listeners:\n    tcp:\n      address: 127.0.0.1:0\nlog:\n  format: text\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := &startedWriter{seen: cancel}
	if code := app.Run(ctx, "v1", []string{"-config", path}, nil, nil, started, nil); code != 0 {
		t.Fatalf("exit %d: %s", code, started.String())
	}
	for _, line := range []string{"broker stops", "level=WARN", "variable=MUSTER_BROKER_LISTENERS_TCP_ADRESS did_you_mean=MUSTER_BROKER_LISTENERS_TCP_ADDRESS"} {
		if !strings.Contains(started.String(), line) {
			t.Errorf("no %q in the log: %s", line, started.String())
		}
	}
	if strings.Contains(started.String(), "127.0.0.1:1 ") || strings.Contains(started.String(), `127.0.0.1:1"`) {
		t.Errorf("the log has what the variable says: %s", started.String())
	}
}

// startedWriter calls seen once the program says that it started.
type startedWriter struct {
	bytes.Buffer
	seen func()
}

func (w *startedWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("broker started")) {
		w.seen()
	}
	return w.Buffer.Write(p)
}

func TestMisuseSaysWhatIsUnknownAndWhereHelpIs(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"frobnicate"}, 2, "broker: unknown command \"frobnicate\"; broker help shows what there is\n"},
		{[]string{"docter"}, 2, "broker: unknown command \"docter\"; did you mean \"doctor\"? broker help shows what there is\n"},
		{[]string{"-confg", "x"}, 2, "broker: unknown flag \"-confg\"; did you mean \"-config\"? broker help shows what there is\n"},
		{[]string{"serve", "more"}, 2, "broker: unknown argument \"more\"; broker help shows what there is\n"},
		{[]string{"-config", filepath.Join(t.TempDir(), "none.yaml")}, 1, "none.yaml: no such file or directory: put it there, or name another\n"},
		{[]string{"-version"}, 0, "broker v1"},
		{[]string{"help"}, 0, "usage: broker [serve]"},
		{[]string{"doctor", "-help"}, 0, "usage: broker [serve]"},
	} {
		var said bytes.Buffer
		if code := app.Run(t.Context(), "v1", c.args, nil, &said, &said, nil); code != c.code || !strings.Contains(said.String(), c.want) {
			t.Errorf("%q: exit %d: %s", c.args, code, said.String())
		}
	}
}

func TestCheckConfigReadsTheFilesThatAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		text, users string
		want        int
		says        string
	}{
		"sound":          {"broker:\n  users_file: users.yaml\n", "users: []\n", 0, "configuration is valid\n"},
		"no users file":  {"broker:\n  users_file: none.yaml\n", "", 1, "cannot load the users file"},
		"empty password": {"broker:\n  users_file: users.yaml\n", "users:\n  - {name: a, role: technician, password: \"\"}\n", 1, "users.yaml:2: users[0]: password: is empty"},
		"no certificate": {"broker:\n  users_file: users.yaml\n  listeners:\n    tls: {address: \"127.0.0.1:0\", cert_file: a, key_file: b}\n", "users: []\n", 1, "broker.yaml:4: broker.listeners.tls.cert_file: cannot use"},
		"no such file":   {"", "", 1, "cannot read configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "broker.yaml")
			for file, text := range map[string]string{path: c.text, filepath.Join(folder, "users.yaml"): c.users} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var said bytes.Buffer
			if code := app.Run(t.Context(), "v1", []string{"check-config", "-config", path}, nil, &said, &said, nil); code != c.want || !strings.Contains(said.String(), c.says) {
				t.Errorf("exit %d: %s", code, said.String())
			}
		})
	}
}

func TestTheEnvironmentGoesOverTheFileAndFlagsOverBoth(t *testing.T) {
	programs.BareEnvironment(t)
	t.Setenv("MUSTER_LOG_LEVEL", "debug")
	t.Setenv("MUSTER_BROKER_LIMITS_MAX_CONNECTIONS", "77")
	t.Setenv("MUSTER_BROKER_LISTENER", "x")
	config := filepath.Join(t.TempDir(), "broker.yaml")
	if err := os.WriteFile(config, []byte("broker:\n  anonymous: true\nlog: {level: warn, format: text}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := app.Run(t.Context(), "v9", []string{"check-config", "-c", config, "-set", "broker.limits.max_connections=99", "-print-effective"}, nil, &out, &errs, nil)
	if code != 0 {
		t.Fatalf("%d: %s", code, errs.String())
	}
	for _, line := range []string{`  level: "debug" # environment MUSTER_LOG_LEVEL`, "    max_connections: 99 # --set", `    connect_deadline: "10s" # default`, `  format: "text" # ` + config + ":3"} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	if errs.String() != "warning: the environment has MUSTER_BROKER_LISTENER, which is no key; did you mean MUSTER_BROKER_LISTENERS_TCP_ADDRESS?\n" {
		t.Errorf("warnings: %q", errs.String())
	}
	for set, want := range map[string]string{"log.level=info": `{"ok":true,"unknownVariables":["MUSTER_BROKER_LISTENER"],`, "log.level=loud": `{"ok":false,"error":"--set: log.level: `} {
		out.Reset()
		code := app.Run(t.Context(), "v9", []string{"check-config", "-c", config, "-set", set, "-json"}, nil, &out, &errs, nil)
		if !strings.HasPrefix(out.String(), want) || (code == 0) != strings.HasPrefix(want, `{"ok":true`) {
			t.Errorf("%s: %d: %s", set, code, out.String())
		}
	}
	out.Reset()
	if code := app.Run(t.Context(), "v9", []string{"version", "-json"}, nil, &out, &errs, nil); code != 0 || !strings.Contains(out.String(), `"version":"v9"`) {
		t.Errorf("%d: %s", code, out.String())
	}
}
