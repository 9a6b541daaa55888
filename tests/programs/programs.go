// Package programs builds Muster's programs and runs them as processes, for
// tests that look at them from outside.
//
// It knows no message and no configuration.
package programs

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait; nothing waits for it to pass.
const Patience = 60 * time.Second

// Process is one running program whose output is kept for a failing test.
type Process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

// Launch starts a program; it is killed at the end of the test at the latest.
func Launch(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, name: filepath.Base(name), done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.WaitDelay = time.Second // a child that outlives it may hold its output open
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("cannot start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its way of ending is the test's to judge
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("--- %s %s\n%s", p.name, strings.Join(args, " "), p.Output())
		}
	})
	return p
}

// Write takes the program's output in.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// Output is what the program said so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// PID names the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode waits for the program's end and returns its code.
func (p *Process) ExitCode() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.t.Fatalf("%s does not end", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Kill is kill -9.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// Terminate is SIGTERM; the program must end by itself.
func (p *Process) Terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	p.ExitCode()
}

// AwaitOutput waits until the program has said text.
func (p *Process) AwaitOutput(text string) {
	p.t.Helper()
	Eventually(p.t, p.name+" saying "+text, func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("%s ended:\n%s", p.name, p.Output())
		default:
		}
		return strings.Contains(p.Output(), text)
	})
}

// The ports of FreeAddr lie below those that systems give to outgoing
// connections, which would take a listener's port while it is started anew.
const lowestPort, highestPort = 10_000, 32_000

// FreeAddr is a loopback address on which nobody listens now, and that stays
// free while a program that listened on it is started anew. Until the test ends its
// port is held in UDP, so that no other test, of this process or another, is given it.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort)))
		held, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = held.Close() })
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatal("no port is free")
	return ""
}

// Eventually waits until holds is true, which is cheap to say; what names it in a
// failure.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	await(t, 20*time.Millisecond, what, holds)
}

// Seldom is Eventually for what is dear to ask: it shares the machine with what it
// waits for.
func Seldom(t testing.TB, what string, holds func() bool) {
	t.Helper()
	await(t, 200*time.Millisecond, what, holds)
}

func await(t testing.TB, pause time.Duration, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	deadline := time.After(Patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not come about", what)
		}
	}
}

// Run runs a program to its end and returns all that it said, and its exit code.
func Run(t testing.TB, name string, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Manifests lists the manifests below a folder of reports: of a revision, such as
// RUN_r1, or of all, "*". A report whose manifest is there is whole.
func Manifests(reports, of string) []string {
	found, _ := filepath.Glob(filepath.Join(reports, "*", "*", "*_"+of+"_manifest.json")) // it fails for bad patterns alone
	return found
}

// Full says whether the whole of a chaos test is asked for (make chaos) rather
// than the share that every run of the tests takes.
func Full() bool { return os.Getenv("MUSTER_CHAOS") == "full" }
