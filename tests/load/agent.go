package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/load/bench"
	"muster/tests/load/crowd"
	"muster/tests/load/meter"
	"muster/tests/load/site"
)

// agent is what the program of a terminal costs its machine: its size for each
// kind of machine, and what it uses while there is nothing to do.
type agent struct {
	dispatcher string
	parent     string
	patience   time.Duration
}

// Flags registers what one can ask for.
func (o *agent) Flags(f *flag.FlagSet) {
	f.StringVar(&o.dispatcher, "dispatcher", "bin/dispatcher", "the headquarters that it connects to")
	f.StringVar(&o.parent, "folder", "", "where folders are made (default: the system's for temporary files)")
	f.DurationVar(&o.patience, "patience", 5*time.Minute, "how long it may take")
}

// burden is what agent finds.
type burden struct {
	Sys    string             `json:"sys"`
	MB     map[string]float64 `json:"mb"` // 1,000,000 bytes, by system and processor
	RSS    float64            `json:"rss_mib"`
	Cores  float64            `json:"idle_cores"`
	Commit string             `json:"commit"`
}

// targets are the machines that stores have.
func targets() []string {
	return []string{"linux/amd64", "linux/arm64", "linux/arm/7", "windows/amd64"}
}

// Measure measures once.
func (o *agent) Measure(ctx context.Context) (line any, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	s, err := site.New(ctx, site.Options{Dispatcher: o.dispatcher, Parent: o.parent, Stores: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	out := burden{Sys: "muster", MB: map[string]float64{}, Commit: bench.Commit()}
	for _, target := range targets() {
		if out.MB[target], err = build(ctx, target, filepath.Join(s.Folder, strings.ReplaceAll(target, "/", "-"))); err != nil {
			return nil, err
		}
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	program := filepath.Join(s.Folder, strings.ReplaceAll(targets()[0], "/", "-"))
	err = o.live(ctx, s, program, &out)
	return out, err
}

// build builds the agent as make build does, and returns its size.
func build(ctx context.Context, target, into string) (float64, error) {
	parts := append(strings.Split(target, "/"), "")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", into, "muster/edge-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+parts[0], "GOARCH="+parts[1], "GOARM="+parts[2])
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("cannot build the agent for %s: %w: %s", target, err, out)
	}
	info, err := os.Stat(into)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}

// live runs the agent until it has said hello and then did nothing for a while.
func (o *agent) live(ctx context.Context, s *site.Site, program string, out *burden) error {
	online := make(chan struct{}, 8)
	boss, err := fleet.Dial(ctx, s.Addr, fleet.Login{User: "load"}, func(fleet.Message) { online <- struct{}{} })
	if err != nil {
		return err
	}
	defer boss.Close()
	if err := boss.Subscribe(ctx, protocol.DefaultRoot+"/stores/+/terminals/+/presence"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-store", crowd.StoreID(0), "-terminal", crowd.Terminal, "-broker", "mqtt://"+s.Addr,
		"-work-folder", filepath.Join(s.Folder, "agent"))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the agent: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed is what it says
	}()
	select {
	case <-online:
	case <-ctx.Done():
		return fmt.Errorf("the agent does not come: %w", ctx.Err())
	}
	const watch = 6 // of rest, since 0.1 % of a core is 10 ms in ten seconds
	for range watch {
		cores, err := rest(ctx, cmd.Process.Pid)
		if err != nil {
			return err
		}
		out.Cores += cores / watch
	}
	out.RSS, err = meter.Memory(cmd.Process.Pid, meter.Resident)
	return err
}
