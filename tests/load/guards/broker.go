package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server"
)

// The two brokers.
const (
	bareBroker    = "bare"
	guardedBroker = "guarded"
)

// serve is a broker until standard input ends. It prints its address.
func serve(ctx context.Context, o options) error {
	start := map[string]func(context.Context) (string, func() error, error){bareBroker: serveBare, guardedBroker: serveGuarded}[o.serve]
	if start == nil {
		return fmt.Errorf("-serve %q is neither %s nor %s", o.serve, bareBroker, guardedBroker)
	}
	addr, stop, err := start(ctx)
	if err != nil {
		return err
	}
	finish, err := profile(o.profile)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, addr)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, finish(), stop())
}

// serveBare is the library as it comes: its own listener, everybody allowed.
func serveBare(context.Context) (addr string, stop func() error, err error) {
	s := mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.AddHook(new(everybody), nil); err != nil {
		return "", nil, err
	}
	l := listeners.NewTCP(listeners.Config{ID: "tcp", Address: "127.0.0.1:0"})
	if err := s.AddListener(l); err != nil {
		return "", nil, err
	}
	return l.Address(), s.Close, s.Serve()
}

// everybody lets everybody do everything.
type everybody struct{ mqtt.HookBase }

func (*everybody) ID() string { return "everybody" }
func (*everybody) Provides(b byte) bool {
	return b == mqtt.OnConnectAuthenticate || b == mqtt.OnACLCheck
}
func (*everybody) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }
func (*everybody) OnACLCheck(*mqtt.Client, string, bool) bool              { return true }

// serveGuarded is our broker with every guard and its default limits.
func serveGuarded(ctx context.Context) (addr string, stop func() error, err error) {
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address = "127.0.0.1:0"
	cfg.Anonymous = true
	s, err := server.New(cfg, server.Options{})
	if err != nil {
		return "", nil, err
	}
	if err := s.Start(ctx); err != nil {
		return "", nil, err
	}
	return s.Addr("tcp").String(), func() error { return s.Stop(context.WithoutCancel(ctx)) }, nil
}

func profile(path string) (finish func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, pprof.StartCPUProfile(f)
}

// broker is one in a process of its own.
type broker struct {
	kind string
	addr string
	cmd  *exec.Cmd
	in   io.Closer
}

func startBroker(ctx context.Context, kind string, o options) (*broker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-serve", kind}
	if kind == guardedBroker {
		args = append(args, "-profile", o.profile)
	}
	b := &broker{kind: kind, cmd: exec.CommandContext(context.WithoutCancel(ctx), self, args...)}
	b.cmd.Stderr = os.Stderr
	out, err1 := b.cmd.StdoutPipe()
	in, err2 := b.cmd.StdinPipe()
	if err := errors.Join(err1, err2, b.cmd.Start()); err != nil {
		return nil, fmt.Errorf("cannot start the %s broker: %w", kind, err)
	}
	b.in = in
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the %s broker did not start: %w", kind, err), b.stop())
	}
	b.addr = strings.TrimSpace(line)
	return b, nil
}

func (b *broker) stop() error { return errors.Join(b.in.Close(), b.cmd.Wait()) }

// cpu is the processor time the broker has used, from /proc.
func (b *broker) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, fields, _ := strings.Cut(string(data), ") ") // the name before may hold blanks
	var user, system int64                          // in hundredths of a second
	skipped := strings.Fields(fields)
	if len(skipped) < 13 {
		return 0, fmt.Errorf("process %d does not say its processor time", b.cmd.Process.Pid)
	}
	if _, err := fmt.Sscan(skipped[11], &user); err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(skipped[12], &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}
