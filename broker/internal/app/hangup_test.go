package app_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/broker/internal/app"
	"muster/broker/server/users"
	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// output is a log that may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) says(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.text.String(), what)
}

// TestAHangupReadsTheUsersFileAndDropsOnlyWhoIsOut: a wrong file changes nothing, a right
// one lets a new user in and ends the session of the one who is gone.
func TestAHangupReadsTheUsersFileAndDropsOnlyWhoIsOut(t *testing.T) {
	t.Parallel()
	hash, err := users.HashPassword([]byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	dir, addr := t.TempDir(), programs.FreeAddr(t)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := func(names ...string) {
		text := "users:\n"
		for _, name := range names {
			text += fmt.Sprintf("  - {name: %s, role: operator, password: %q}\n", name, hash)
		}
		write("users.yaml", text)
	}
	known("wang", "li")
	write("broker.yaml", "broker:\n  users_file: users.yaml\n  listeners: {tcp: {address: \""+addr+"\"}}\n")
	log, hangup, ended := &output{}, make(chan os.Signal), make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- app.Run(ctx, "v1", []string{"-c", filepath.Join(dir, "broker.yaml")}, nil, nil, log, hangup)
	}()
	programs.Eventually(t, "the broker starting", func() bool { return log.says("broker started") })
	dial := func(name string) (*fleet.Conn, error) {
		return fleet.Dial(t.Context(), addr, fleet.Login{User: name, Password: "correct horse"}, func(fleet.Message) {})
	}
	var conns []*fleet.Conn
	for _, name := range []string{"wang", "li"} {
		conn, err := dial(name)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	write("users.yaml", "users:\n  - {name: zhao, role: king}\n")
	hangup <- syscall.SIGHUP
	programs.Eventually(t, "a refusal", func() bool { return log.says("the old one stays in force") && log.says("users.yaml:2") })
	settled := "broker:\n  users_file: users.yaml\n  listeners: {tcp: {address: \"" + addr + "\"}}\n"
	for _, cut := range []struct{ text, want string }{
		{"", "holds no setting"},
		{strings.Replace(settled, "users_file: users.yaml", "anonymous: true", 1), "users_file: is gone"},
		{strings.Replace(settled, "users.yaml", os.DevNull, 1), "is a device, not a regular file"},
	} {
		write("broker.yaml", cut.text)
		hangup <- syscall.SIGHUP
		programs.Eventually(t, cut.want, func() bool { return log.says(cut.want) })
	}
	write("broker.yaml", settled)
	known("wang", "zhao")
	hangup <- syscall.SIGHUP
	programs.Eventually(t, "the file being read", func() bool { return log.says("the users file was read again") })
	zhao, err := dial("zhao")
	if err != nil {
		t.Errorf("the new user: %v", err)
	} else {
		zhao.Close()
	}
	programs.Eventually(t, "li being dropped", func() bool { return log.says("\"user\":\"li\",\"reason\":\"the users file no longer lets") })
	if err := conns[0].Subscribe(t.Context(), protocol.DefaultRoot+"/info"); err != nil {
		t.Errorf("wang was dropped: %v", err)
	}
	write("broker.yaml", "broker:\n  users_file: users.yaml\n  topic_root: other/v1\n  limits: {max_connections: 7}\n  listeners: {tcp: {address: \""+addr+"\"}}\n")
	hangup <- syscall.SIGHUP
	programs.Eventually(t, "what needs a restart being named", func() bool {
		return log.says(`"needs_restart":"broker.topic_root broker.limits.max_connections"`)
	})
	cancel()
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("exit %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("the broker does not stop")
	}
}
