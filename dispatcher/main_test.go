package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/tests/programs"
)

func TestCheckConfigReadsWhatServeReads(t *testing.T) {
	t.Parallel()
	const head = "broker:\n  anonymous: false\n  users_file: users.yaml\n"
	for name, c := range map[string]struct {
		text, users string
		want        int
		says        string
	}{
		"sound":           {head, "users: []\n", 0, "configuration is valid: jobs "},
		"no users file":   {head, "", 2, "cannot load the users file"},
		"empty password":  {head, "users:\n  - {name: a, role: technician, password: \"\"}\n", 2, "users.yaml:2: users[0]: password: is empty"},
		"no certificate":  {head + "  listeners:\n    tls: {address: \"127.0.0.1:0\", cert_file: a, key_file: b}\n", "users: []\n", 2, "broker.listeners.tls.cert_file: cannot use "},
		"broker password": {"transport: mqtt\nmqtt: {password_file: none}\n", "", 2, "cannot read the broker password"},
		"broker trust":    {"transport: mqtt\nmqtt: {ca_file: dispatcher.yaml}\n", "", 2, "it holds no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path := filepath.Join(folder, "dispatcher.yaml")
			files := map[string]string{path: c.text}
			if c.users != "" {
				files[filepath.Join(folder, "users.yaml")] = c.users
			}
			for file, text := range files {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var said bytes.Buffer
			if code := run(t.Context(), []string{"check-config", "-c", path}, &said, &said); code != c.want || !strings.Contains(said.String(), c.says) {
				t.Errorf("exit %d: %s", code, said.String())
			}
		})
	}
}

// TestOneConfigurationOfThreeLayers runs the command with a file, the environment
// and flags.
func TestOneConfigurationOfThreeLayers(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "dispatcher.yaml")
	if err := os.WriteFile(path, []byte("data_folder: data\nadmission: {max_running: 1, grant_burst: 1}\nmqtt: {url: \"mqtt://x:hunter2pass@hq\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MUSTER_ADMISSION_MAX_RUNNING", "2")
	t.Setenv("MUSTER_ADMISSION_GRANT_BURST", "2")
	t.Setenv("MUSTER_ADMISION_BURST", "2")
	var said, errs bytes.Buffer
	if code := run(t.Context(), []string{"check-config", "-c", path, "--set", "admission.grant_burst=3", "--print-effective"}, &said, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	for _, line := range []string{"  max_running: 2 # environment MUSTER_ADMISSION_MAX_RUNNING", "  grant_burst: 3 # --set",
		`data_folder: "` + filepath.Join(folder, "data") + `" # ` + path + ":1", "  grants_per_second: 200 # default", `    max_connections: 20000 # default`} {
		if !strings.Contains(said.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, said.String())
		}
	}
	if strings.Contains(said.String(), "hunter2pass") {
		t.Errorf("a password is shown:\n%s", said.String())
	}
	if !strings.Contains(errs.String(), "warning: the environment has MUSTER_ADMISION_BURST, which is no key") {
		t.Errorf("warnings: %q", errs.String())
	}
	for set, want := range map[string]string{"log.level=debug": "{\n  \"ok\": true,\n", "log.level=loud": "{\n  \"ok\": false,\n  \"error\": \"--set: log.level: "} {
		said.Reset()
		errs.Reset()
		code := run(t.Context(), []string{"check-config", "-c", path, "--set", set, "--json"}, &said, &errs)
		if !strings.HasPrefix(said.String(), want) || (code == 0) == (errs.Len() > 0) || (code == 0) != strings.Contains(said.String(), `"unknownVariables": [`) {
			t.Errorf("%s: exit %d: %s%s", set, code, said.String(), errs.String())
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"version"}, "dispatcher dev (go"},
		{[]string{"version", "--json"}, `"version": "dev"`},
		{[]string{"completion", "bash"}, "bash completion V2 for dispatcher"},
		{[]string{"completion", "powershell"}, "Register-ArgumentCompleter"},
		{[]string{"__complete", "che"}, "check-config\t"},
	} {
		var said bytes.Buffer
		if code := run(t.Context(), c.args, &said, &said); code != 0 || !strings.Contains(said.String(), c.says) {
			t.Errorf("%v: exit %d: %.300s", c.args, code, said.String())
		}
	}
}

// readyWriter calls seen once headquarters says that it is ready.
type readyWriter struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen func()
}

func (w *readyWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(p, []byte("headquarters is ready")) {
		w.seen()
	}
	return w.text.Write(p)
}

func TestServeWarnsOfAMisspeltVariable(t *testing.T) {
	programs.BareEnvironment(t)
	t.Setenv("MUSTER_ADMISION_GRANT_BURST", "31415")
	t.Setenv("MUSTER_USER", "chen") // of the operator's commands
	folder := t.TempDir()
	path := filepath.Join(folder, "dispatcher.yaml")
	text := "data_folder: data\nreports_folder: reports\nlog: {format: text}\n" +
		"broker:\n  anonymous: true\n  listeners:\n    tcp: {address: \"127.0.0.1:0\"}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := &readyWriter{seen: cancel}
	if code := run(ctx, []string{"serve", "-c", path}, said, said); code != 0 {
		t.Fatalf("exit %d: %s", code, said.text.String())
	}
	log := said.text.String()
	if !strings.Contains(log, "level=WARN") || !strings.Contains(log, "variable=MUSTER_ADMISION_GRANT_BURST did_you_mean=MUSTER_ADMISSION_GRANT_BURST\n") {
		t.Errorf("no warning in the log: %s", log)
	}
	if strings.Contains(log, "31415") || strings.Contains(log, "MUSTER_USER") {
		t.Errorf("the log has what the variable says, or one that is known: %s", log)
	}
}

// TestDoctorNamesWhatIsIllAndItsMend looks at a headquarters that does not run.
func TestDoctorNamesWhatIsIllAndItsMend(t *testing.T) {
	programs.BareEnvironment(t)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	write("reports/keep", "")
	write("data/muster.db", "this is no database, and long enough that nobody takes it for an empty one")
	write("jobs/bad.yaml", "name: bad\n")
	path := write("dispatcher.yaml", "data_folder: data\nreports_folder: reports\njobs_folder: jobs\nstores_file: gone.csv\nbroker:\n  listeners: {tcp: {address: \""+taken.Addr().String()+"\"}}\n")
	var said bytes.Buffer
	if code := run(t.Context(), []string{"doctor", "-c", path, "--json"}, &said, &said); code != 1 {
		t.Fatalf("exit %d: %s", code, said.String())
	}
	var found struct {
		OK       bool
		Findings []struct{ Check, State, Text, Mend string }
	}
	if err := json.Unmarshal(said.Bytes(), &found); err != nil || found.OK {
		t.Fatalf("%v: %s", err, said.String())
	}
	states := map[string]string{}
	for _, f := range found.Findings {
		states[f.Check] = f.State
		if (f.State == "fail" || f.State == "warn") != (f.Mend != "") {
			t.Errorf("%+v: what is ill needs a mend, and nothing else", f)
		}
	}
	for check, want := range map[string]string{"configuration": "ok", "jobs, schemas and stores": "fail", "headquarters": "ok", "data folder": "ok", "database": "fail",
		"reports folder": "ok", "port of the broker, tcp": "fail", "broker": "skip"} {
		if states[check] != want {
			t.Errorf("%s is %q, want %q:\n%s", check, states[check], want, said.String())
		}
	}
	write("dispatcher.yaml", "data_folder: 7\n")
	said.Reset()
	if code := run(t.Context(), []string{"doctor", "-c", path}, &said, &said); code != 1 || !strings.Contains(said.String(), "fail  configuration: "+path+":1: data_folder: must be a text, in quotes") ||
		!strings.Contains(said.String(), "mend: edit it") || !strings.Contains(said.String(), "2 checks: 0 ok, 0 warnings, 1 failed, 1 not looked at") {
		t.Errorf("exit %d: %s", code, said.String())
	}
}

func TestMisuseSaysWhatIsUnknownAndWhereHelpIs(t *testing.T) {
	for _, c := range []struct {
		line string
		want string
	}{
		{"foo", `dispatcher: unknown command "foo"; dispatcher --help shows what there is`},
		{"sevre", `dispatcher: unknown command "sevre"; did you mean "serve"? dispatcher --help shows what there is`},
		{"stores imprt", `dispatcher: unknown command "imprt"; did you mean "import"? dispatcher stores --help shows what there is`},
		{"serve foo", `dispatcher: unknown argument "foo"; dispatcher serve --help shows what there is`},
		{"serve --confg x", `dispatcher: unknown flag "--confg"; did you mean "--config"? dispatcher serve --help shows what there is`},
		{"serve -x", `dispatcher: unknown shorthand flag: 'x' in -x; dispatcher serve --help shows what there is`},
		{"serve --set", `dispatcher: flag needs an argument: --set; dispatcher serve --help shows what there is`},
	} {
		var said bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.line), &said, &said); code != 2 || said.String() != c.want+"\n" {
			t.Errorf("%s: exit %d: %s", c.line, code, said.String())
		}
	}
	for _, line := range []string{"", "stores", "--help"} {
		var said bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &said, &said); code != 0 || !strings.Contains(said.String(), "Usage:") {
			t.Errorf("%q: exit %d: %s", line, code, said.String())
		}
	}
}
