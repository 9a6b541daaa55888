package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/load/bench"
	"muster/tests/load/crowd"
	"muster/tests/load/meter"
	"muster/tests/load/site"
)

// restart is how soon a headquarters serves again that was killed with open tasks,
// and what it uses while they wait for their stores.
type restart struct {
	dispatcher string
	parent     string
	tasks      int
	patience   time.Duration
}

// Flags registers what one can ask for.
func (o *restart) Flags(f *flag.FlagSet) {
	f.StringVar(&o.dispatcher, "dispatcher", "bin/dispatcher", "the program to measure")
	f.StringVar(&o.parent, "folder", "", "where headquarters' folder is made (default: the system's for temporary files)")
	f.IntVar(&o.tasks, "n", 100_000, "open tasks, one a store")
	f.DurationVar(&o.patience, "patience", 3*time.Minute, "how long it may take")
}

// comeback is what restart finds, from the start of the process. The names are
// the peers'.
type comeback struct {
	Sys    string  `json:"sys"`
	N      int     `json:"n"`
	Ready  float64 `json:"ready_ms"`          // a terminal is connected and subscribed
	First  float64 `json:"first_delivery_ms"` // it has its offer
	CPU    float64 `json:"cpu_s"`
	RSS    float64 `json:"rss_mb"`
	Idle   float64 `json:"idle_cores"`
	Commit string  `json:"commit"`
}

// Measure measures once.
func (o *restart) Measure(ctx context.Context) (line any, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	s, err := site.New(ctx, site.Options{Dispatcher: o.dispatcher, Parent: o.parent, Stores: o.tasks, Runs: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := o.open(ctx, s); err != nil {
		return nil, err
	}
	s.Kill()
	begin := time.Now()
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	out := comeback{Sys: "muster", N: o.tasks, Commit: bench.Commit()}
	if err := o.serve(ctx, s, begin, &out); err != nil {
		return nil, err
	}
	cpu, err1 := meter.CPU(s.PID())
	rss, err2 := meter.Memory(s.PID(), meter.Resident)
	cores, err3 := rest(ctx, s.PID())
	out.CPU, out.RSS, out.Idle = cpu.Seconds(), rss, cores
	return out, errors.Join(err1, err2, err3)
}

// open has the run made, and gives its offers the time to be out.
func (o *restart) open(ctx context.Context, s *site.Site) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := s.Hire(ctx); err != nil {
		return err
	}
	if _, err := s.Ask(1); err != nil {
		return err
	}
	select {
	case <-s.Accepted:
		return pause(ctx, 3*time.Second)
	case err := <-s.Refused():
		return err
	case <-ctx.Done():
		return fmt.Errorf("no run was made: %w", ctx.Err())
	}
}

// serve connects the terminal of the last store.
func (o *restart) serve(ctx context.Context, s *site.Site, begin time.Time, out *comeback) error {
	store := crowd.StoreID(o.tasks - 1)
	offered := make(chan time.Time, 1)
	c, err := fleet.Dial(ctx, s.Addr, fleet.Login{User: store + "/" + crowd.Terminal}, func(m fleet.Message) {
		if m.Retained && len(m.Payload) > 0 {
			select {
			case offered <- time.Now():
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Subscribe(ctx, protocol.DefaultRoot+"/stores/"+store+"/tasks/+"); err != nil {
		return err
	}
	out.Ready = ms(time.Since(begin))
	select {
	case at := <-offered:
		out.First = ms(at.Sub(begin))
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no offer came: %w", ctx.Err())
	}
}
