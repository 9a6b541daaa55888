package hostile_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// brokerVar makes the test binary a broker in a process of its own, with its
// own descriptors and memory: it prints its address and serves until its
// standard input ends.
const brokerVar = "MUSTER_HOSTILE_BROKER"

func brokerProcess() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := serve(ctx, configuration(), slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, s.Addr("tcp"))
	_, err = io.Copy(io.Discard, os.Stdin)
	if err := errors.Join(err, s.Stop(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a broker in a process of its own.
type process struct {
	addr string
	pid  int
	errs strings.Builder
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), brokerVar+"=1")
	cmd.Stderr = &p.errs
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil || p.errs.Len() > 0 {
			t.Errorf("the broker ended with %v and said: %s", err, p.errs.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the broker did not start: %v", err)
	}
	p.addr, p.pid = strings.TrimSpace(line), cmd.Process.Pid
	return p
}

// residentMiB is the memory the process has resident.
func (p *process) residentMiB(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib >> 10
		}
	}
	t.Fatal("the process does not say its memory")
	return 0
}

// files is how many descriptors the process has open.
func (p *process) files(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
