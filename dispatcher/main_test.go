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
