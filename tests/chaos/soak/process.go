package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// process is one running program. What it says goes to a log file.
type process struct {
	name   string
	cmd    *exec.Cmd
	done   chan struct{}
	wanted atomic.Bool // it was us who ended it

	mu    sync.Mutex
	log   *os.File
	tail  []byte
	await []byte
	said  chan struct{} // it said what was awaited
}

const tailBytes = 4 << 10

// launch starts a program whose log is appended to a file. ended is called when
// it ends by itself.
func launch(logFile, await string, command []string, ended func(*process)) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open a log: %w", err)
	}
	p := &process{name: strings.TrimSuffix(filepath.Base(logFile), ".log"), done: make(chan struct{}), log: log, await: []byte(await), said: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is told by ended
		_ = log.Close()
		close(p.done)
		if !p.wanted.Load() {
			ended(p)
		}
	}()
	return p, nil
}

// Write takes the program's output in.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, b...)
	if len(p.await) > 0 && bytes.Contains(p.tail, p.await) {
		p.await = nil
		close(p.said)
	}
	if len(p.tail) > tailBytes {
		p.tail = p.tail[len(p.tail)-tailBytes:]
	}
	return p.log.Write(b)
}

func (p *process) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.tail)
}

// ready waits until the program has said what was awaited.
func (p *process) ready(patience time.Duration) error {
	select {
	case <-p.said:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended: %s", p.name, p.words())
	case <-time.After(patience):
		return fmt.Errorf("%s is not ready after %v: %s", p.name, patience, p.words())
	}
}

// kill is kill -9.
func (p *process) kill() {
	p.wanted.Store(true)
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// stop is SIGTERM, and kill -9 when that does not help.
func (p *process) stop(patience time.Duration) error {
	p.wanted.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("%s does not stop", p.name)
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// processorTime is what a process has used, user and system.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // clock ticks are hundredths of a second
}

// run runs a command to its end.
func run(ctx context.Context, command ...string) (said []byte, code int, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var both bytes.Buffer
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &both
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return nil, -1, fmt.Errorf("cannot run %s: %w", command[0], err)
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		err = fmt.Errorf("%s ended with %d: %s%s", strings.Join(command[1:], " "), code, out.String(), both.String())
	}
	return out.Bytes(), code, err
}
