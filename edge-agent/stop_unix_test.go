//go:build !windows

package main_test

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/tests/programs"
)

// TestASilentPipeHoldsNoCommandUp gives commands a pipe, into which nobody writes, in
// the place of a file, and tells them to end.
func TestASilentPipeHoldsNoCommandUp(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for _, line := range []string{
		"run -c PIPE", "check-config -c PIPE", "doctor -c PIPE", "run-once -store 0001 PIPE", "enroll -c PIPE",
		"enroll --headquarters https://localhost:1 --identity new --token-file PIPE",
	} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), bin, strings.Fields(strings.ReplaceAll(line, "PIPE", pipe))...)
		var said bytes.Buffer
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = programs.Bare(), t.TempDir(), &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		if !programs.Taken(t, pipe, ended) {
			t.Errorf("%s: did not read: %s", line, said.String())
			continue
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said.String(), "one of them may be a pipe into which nobody writes") {
				t.Errorf("%s: exit %d: %s", line, code, said.String())
			}
		case <-time.After(patience):
			t.Errorf("%s: was told to end, and reads on", line)
		}
	}
}

// TestAClosedWindowDoesNotEndTheAgent sends a hangup, and takes the reader of its log away.
func TestAClosedWindowDoesNotEndTheAgent(t *testing.T) {
	t.Parallel()
	agent := exec.Command(build(t), "-store", "007", "-broker", "mqtt://127.0.0.1:1", "-work-folder", t.TempDir())
	agent.Env = programs.Bare()
	log, err := agent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = agent.Process.Kill() })
	defer stuck.Stop()
	lines := bufio.NewScanner(log)
	await := func(words string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), words) {
				return
			}
		}
		t.Errorf("it ended, and did not say: %s", words)
	}
	await("edge agent starts")
	for range 2 {
		if err := agent.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		await("the agent reads its configuration at the start only")
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil { // it writes that it stopped
		t.Error(err)
	}
}
