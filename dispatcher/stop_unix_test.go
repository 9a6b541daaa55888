//go:build !windows

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/tests/programs"
)

// held is a command line that was given a pipe into which nobody writes.
type held struct {
	line  string
	said  bytes.Buffer
	code  int
	ended chan struct{}
	pipe  string
}

// hold runs a line with a pipe in the place of each file that it may read.
func hold(ctx context.Context, t *testing.T, line string) *held {
	t.Helper()
	// A command that is left behind may write there while its process lives, which t.TempDir
	// would fail for.
	dir, err := os.MkdirTemp("", "held")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := func(name string) string { return filepath.Join(dir, name) }
	h := &held{line: line, ended: make(chan struct{}), pipe: path("x_manifest.json")}
	if err := errors.Join(syscall.Mkfifo(h.pipe, 0o600), os.Mkdir(path("data"), 0o700), os.Link(h.pipe, path("data/muster.db")), os.Link(h.pipe, path("data/admin.json"))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"users.yaml":  "data_folder: own\nbroker: {anonymous: false, users_file: x_manifest.json}\n",
		"places.yaml": "data_folder: own\nstores_file: x_manifest.json\n",
		"stores.csv":  "store_id,name,time_zone,labels\nA1,x,UTC,\n",
	} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := strings.Fields(strings.NewReplacer("PIPE", h.pipe, "DATA", path("data"), "DIR", dir,
		"USERS", path("users.yaml"), "STORES", path("places.yaml")).Replace(line))
	go func() {
		defer close(h.ended)
		h.code = run(ctx, args, &h.said, &h.said)
	}()
	return h
}

func TestASilentPipeHoldsNoCommandUp(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all []*held
	for _, line := range []string{
		"serve -c PIPE", "check-config -c PIPE", "doctor -c PIPE", "tech-kit wang -c PIPE", "tech-kit wang --password-file PIPE --out PIPE",
		"run sleep --stores @PIPE", "run sleep --stores all --input-file PIPE", "run sleep --stores all --key PIPE",
		"jobs --password-file PIPE", "jobs --ca-file PIPE", "retry R --key PIPE", "approve A --key PIPE",
		"enroll A B -c PIPE", "keys rotate -c PIPE", "reload -c PIPE", "stores list -c PIPE", "stores import PIPE", "users list -c PIPE",
		"runs -c PIPE", "report verify x -c PIPE", "report verify PIPE --manifest-only", "audit verify -c PIPE",
		"backup DIR/new -c PIPE", "restore PIPE --data DIR", "migrate -c PIPE",
		"terminals --data DATA", "runs --data DATA",
		"check-config -c USERS", "doctor -c USERS", "tech-kit wang -c USERS", "users list -c USERS",
		"check-config -c STORES", "doctor -c STORES", "tech-kit wang -c STORES --out PIPE", "stores import DIR/stores.csv -c STORES",
	} {
		h := hold(ctx, t, line)
		all = append(all, h)
		programs.Taken(t, h.pipe, h.ended)
	}
	stop()
	late := time.After(farewell + 20*time.Second)
	for _, h := range all {
		select {
		case <-h.ended:
			if h.code == 0 || h.said.Len() == 0 {
				t.Errorf("%s: exit %d: %s", h.line, h.code, h.said.String())
			}
		case <-late:
			t.Fatalf("%s: was told to end, and reads on", h.line)
		}
	}
}
