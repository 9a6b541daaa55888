package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"muster/tests/load/crowd"
	"muster/tests/load/meter"
)

// orders are what the process of the terminals is told on its command line. Over
// standard input and output it says READY, then DONE with the time of the last
// receipt; told STOP with the time of the trigger, it says its sums.
type orders struct {
	crowd.Options
	Addr string
}

// answer is what the terminals' process says at the end.
type answer struct {
	crowd.Sums
	Peak float64 // MiB
}

// work is the terminals' process.
func work(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("cannot read the orders: %w", err)
	}
	o.Dial = dialFrom(o.Addr)
	c, err := crowd.New(o.Options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.Connect(ctx); err != nil {
		return err
	}
	defer c.Close()
	runtime.GC()
	if _, err := fmt.Fprintln(out, "READY"); err != nil {
		return err
	}
	stop := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		stop <- line
	}()
	done := c.Done()
	for {
		select {
		case <-done:
			done = nil
			if _, err := fmt.Fprintln(out, "DONE", c.Last().UnixNano()); err != nil {
				return err
			}
		case err := <-c.Failed():
			return err
		case line := <-stop:
			nanos, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(line), "STOP "), 10, 64)
			if err != nil {
				return fmt.Errorf("cannot read %q: %w", line, err)
			}
			peak, err := meter.Memory(os.Getpid(), meter.Peak)
			return errors.Join(err, json.NewEncoder(out).Encode(answer{c.Count(time.Unix(0, nanos)), peak}))
		}
	}
}

// dialFrom spreads terminals over addresses: one has some 28,000 ports.
func dialFrom(addr string) func(ctx context.Context, i int) (net.Conn, error) {
	return func(ctx context.Context, i int) (net.Conn, error) {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%50))}}
		return from.DialContext(ctx, "tcp", addr)
	}
}

// worker is the terminals' process, seen from outside.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// hire starts the terminals and returns once they are up.
func hire(ctx context.Context, o orders) (*worker, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("cannot write the orders: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "work", string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the terminals: %w", err)
	}
	w := &worker{cmd, in, bufio.NewReader(out)}
	if line, err := w.line(); err != nil || line != "READY" {
		w.kill()
		return nil, fmt.Errorf("the terminals did not come up: %q %w", line, err)
	}
	return w, nil
}

func (w *worker) line() (string, error) {
	line, err := w.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// done waits for the last receipt and returns when it came.
func (w *worker) done() (time.Time, error) {
	line, err := w.line()
	if err != nil {
		return time.Time{}, fmt.Errorf("the terminals ended early: %w", err)
	}
	nanos, err := strconv.ParseInt(strings.TrimPrefix(line, "DONE "), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the terminals said %q: %w", line, err)
	}
	return time.Unix(0, nanos), nil
}

// stop asks for the sums since the trigger and ends the terminals.
func (w *worker) stop(trigger time.Time) (a answer, err error) {
	if _, err := fmt.Fprintf(w.in, "STOP %d\n", trigger.UnixNano()); err != nil {
		return a, fmt.Errorf("cannot stop the terminals: %w", err)
	}
	line, err := w.line()
	if err == nil {
		err = json.Unmarshal([]byte(line), &a)
	}
	if err != nil {
		return a, fmt.Errorf("the terminals said %q: %w", line, err)
	}
	return a, w.cmd.Wait()
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill() // it may have ended
	_ = w.cmd.Wait()         // killed is what it says
}
