package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// stopGrace is how long a program may take to end in order before it is killed.
const stopGrace = 5 * time.Second

// child is a program that the demo started. Its output goes to a file.
type child struct {
	name  string
	log   string
	cmd   *exec.Cmd
	end   context.CancelFunc
	ended chan struct{} // closed when the process is gone
	err   error         // readable once ended is closed
}

// start runs a program until ctx ends: then it is asked to stop, and killed
// when it takes too long. Output is appended to logs/name.log.
func start(ctx context.Context, logs, name, program string, args ...string) (*child, error) {
	path := filepath.Join(logs, name+".log")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of %s: %w", name, err)
	}
	ctx, end := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error {
		// Windows knows no interrupt; the delay below then ends the process.
		if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return cmd.Process.Kill()
		}
		return nil
	}
	cmd.WaitDelay = stopGrace
	if err := cmd.Start(); err != nil {
		end()
		return nil, errors.Join(fmt.Errorf("cannot start %s: %w", name, err), out.Close())
	}
	c := &child{name: name, log: path, cmd: cmd, end: end, ended: make(chan struct{})}
	go func() {
		c.err = errors.Join(cmd.Wait(), out.Close())
		close(c.ended)
	}()
	return c, nil
}

// stop ends the program in order and waits for it.
func (c *child) stop() {
	c.end()
	<-c.ended
}

// kill ends it as a power cut would, and waits until it is gone.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("cannot kill %s: %w", c.name, err)
	}
	<-c.ended
	c.end()
	return nil
}

// family is every program of the demo.
type family struct {
	logs     string
	children []*child
}

func (f *family) start(ctx context.Context, name, program string, args ...string) (*child, error) {
	c, err := start(ctx, f.logs, name, program, args...)
	if err == nil {
		f.children = append(f.children, c)
	}
	return c, err
}

// stop ends the agents in order, then headquarters, which was started first.
func (f *family) stop() {
	if len(f.children) == 0 {
		return
	}
	agents := f.children[1:]
	for _, c := range agents {
		c.end()
	}
	for _, c := range agents {
		<-c.ended
	}
	f.children[0].stop()
}
