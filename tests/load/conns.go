package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"muster/tests/load/bench"
	"muster/tests/load/crowd"
	"muster/tests/load/meter"
	"muster/tests/load/site"
)

// conns is what idle terminals cost headquarters, which is in this process so that
// its garbage can be taken away before it is weighed; the terminals are in another.
type conns struct {
	parent    string
	terminals int
	patience  time.Duration
}

// Flags registers what one can ask for.
func (o *conns) Flags(f *flag.FlagSet) {
	f.StringVar(&o.parent, "folder", "", "where headquarters' folder is made (default: the system's for temporary files)")
	f.IntVar(&o.terminals, "w", 9500, "terminals")
	f.DurationVar(&o.patience, "patience", 3*time.Minute, "how long it may take")
}

// weight is what conns finds. The names are the peers'.
type weight struct {
	Sys         string  `json:"sys"`
	Conns       int     `json:"conns"`
	BytesBefore int     `json:"bytes_per_conn_rss"`
	Bytes       int     `json:"bytes_per_conn_after_gc"`
	Seconds     float64 `json:"connect_s"`
	IdleCores   float64 `json:"idle_cores"`
	Commit      string  `json:"commit"`
}

// idle is how long what does nothing is watched.
const idle = 10 * time.Second

// Measure measures once.
func (o *conns) Measure(ctx context.Context) (line any, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	s, err := site.New(ctx, site.Options{Parent: o.parent, Stores: o.terminals, Terminals: o.terminals})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	hq, err := moveIn(ctx, s.Config())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, hq.stop()) }()
	before, err := weigh(true)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	w, err := hire(ctx, orders{Addr: s.Addr, Options: crowd.Options{Terminals: o.terminals}})
	if err != nil {
		return nil, err
	}
	defer w.kill()
	took := time.Since(begin)
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	dirty, err := weigh(false)
	if err != nil {
		return nil, err
	}
	clean, err := weigh(true)
	if err != nil {
		return nil, err
	}
	cores, err := rest(ctx, os.Getpid())
	each := func(mib float64) int { return int((mib - before) * (1 << 20) / float64(o.terminals)) }
	return weight{Sys: "muster", Conns: o.terminals, BytesBefore: each(dirty), Bytes: each(clean), Seconds: took.Seconds(), IdleCores: cores, Commit: bench.Commit()}, err
}

// weigh is what this process has resident, in MiB.
func weigh(clean bool) (float64, error) {
	if clean {
		runtime.GC()
		debug.FreeOSMemory()
	}
	return meter.Memory(os.Getpid(), meter.Resident)
}

// rest is how many cores a process uses that has nothing to do.
func rest(ctx context.Context, pid int) (float64, error) {
	if err := pause(ctx, 3*time.Second); err != nil {
		return 0, err
	}
	span, err := meter.Start(pid)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, idle); err != nil {
		return 0, err
	}
	used, err := span.Stop()
	if err != nil {
		return 0, err
	}
	return used.CPU[0].Seconds() / used.Wall.Seconds(), nil
}
