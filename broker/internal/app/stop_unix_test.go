//go:build !windows

package app_test

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

	"muster/broker/internal/app"
	"muster/tests/programs"
)

// TestASilentPipeHoldsNoCommandUp gives commands a pipe, into which nobody writes, in
// the place of a file, and tells them to end.
func TestASilentPipeHoldsNoCommandUp(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"serve -c PIPE", "serve -c CONFIG", "check-config -c PIPE", "check-config -c CONFIG", "doctor -c CONFIG", "hash-password"} {
		dir := t.TempDir()
		pipe, config := filepath.Join(dir, "pipe"), filepath.Join(dir, "broker.yaml")
		if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(config, []byte("broker: {anonymous: false, users_file: pipe}\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer out.Close()
		ended := make(chan struct{})
		var said bytes.Buffer
		code := 0
		go func() {
			defer close(ended)
			code = app.Run(ctx, "v1", strings.Fields(strings.NewReplacer("PIPE", pipe, "CONFIG", config).Replace(line)), in, &said, &said, nil)
		}()
		if line != "hash-password" && !programs.Taken(t, pipe, ended) {
			t.Errorf("%s: did not read: %s", line, said.String())
			continue
		}
		stop()
		select {
		case <-ended:
			if code != 1 || !strings.Contains(said.String(), "one of them may be a pipe into which nobody writes") {
				t.Errorf("%s: exit %d: %s", line, code, said.String())
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: was told to end, and reads on", line)
		}
	}
}
