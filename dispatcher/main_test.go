package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"no certificate":  {head + "  listeners:\n    tls: {address: \"127.0.0.1:0\", cert_file: a, key_file: b}\n", "users: []\n", 2, "listeners.tls: cannot load the certificate"},
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
	if !strings.Contains(errs.String(), "MUSTER_ADMISION_BURST, which is no key") {
		t.Errorf("warnings: %q", errs.String())
	}
	said.Reset()
	if code := run(t.Context(), []string{"check-config", "-c", path, "--json"}, &said, &errs); code != 0 || !strings.Contains(said.String(), `"unknownVariables": [`) {
		t.Errorf("exit %d: %s", code, said.String())
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
