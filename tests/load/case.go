package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"muster/tests/load/bench"
	"muster/tests/load/crowd"
	"muster/tests/load/meter"
	"muster/tests/load/site"
)

// aCase is one measurement of a dispatch: tasks over terminals, all durable.
type aCase struct {
	dispatcher string
	parent     string
	tasks      int
	terminals  int
	signed     bool
	work       time.Duration
	hold       bool
	bytes      int
	patience   time.Duration
	rep        int
	profile    string
}

// Flags registers what one can ask for.
func (o *aCase) Flags(f *flag.FlagSet) {
	f.StringVar(&o.dispatcher, "dispatcher", "bin/dispatcher", "the program to measure")
	f.StringVar(&o.parent, "folder", "", "where headquarters' folder is made (default: the system's for temporary files)")
	f.IntVar(&o.tasks, "n", 5000, "tasks, a multiple of -w: that many runs are asked for at once")
	f.IntVar(&o.terminals, "w", 500, "stores, with one terminal each")
	f.BoolVar(&o.signed, "signed", false, "headquarters has an identity: everything is signed and checked")
	f.DurationVar(&o.work, "think", 0, "how long one execution takes")
	f.BoolVar(&o.hold, "hold", false, "hold all results back until everything is granted: how fast they come in then")
	f.IntVar(&o.bytes, "bytes", 1024, "size of one result, about")
	f.DurationVar(&o.patience, "patience", 3*time.Minute, "how long it may take")
	f.IntVar(&o.rep, "rep", 0, "the repetition, for the row")
	f.StringVar(&o.profile, "profile", "", "a folder for profiles of headquarters, which is in this process then")
}

func (o *aCase) name() string {
	name := "muster"
	if o.signed {
		name += "-signed"
	}
	if o.hold {
		name += "-hold"
	}
	return name
}

// Measure runs the case in a fresh headquarters. One store has no terminal: no
// run is complete, so that no report is made while it lasts.
func (o *aCase) Measure(ctx context.Context) (line any, err error) {
	if o.terminals < 1 || o.tasks%o.terminals != 0 {
		return nil, fmt.Errorf("-n %d is no multiple of -w %d", o.tasks, o.terminals)
	}
	patience := o.patience
	if o.signed {
		patience += time.Duration(o.terminals) * login
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	runs := o.tasks / o.terminals
	s, err := site.New(ctx, site.Options{Dispatcher: o.dispatcher, Parent: o.parent, Stores: o.terminals + 1, Terminals: o.terminals,
		Signed: o.signed, Runs: runs})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	pid, end, err := o.start(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := s.Hire(ctx); err != nil {
		return nil, err
	}
	crew := orders{Addr: s.Addr, Options: crowd.Options{Terminals: o.terminals, Tasks: o.tasks, Work: o.work, Hold: o.hold, Bytes: o.bytes, Signed: o.signed}}
	if o.signed {
		crew.Password = site.Password
	}
	w, err := hire(ctx, crew)
	if err != nil {
		return nil, err
	}
	defer w.kill()
	return o.run(ctx, s, w, runs, pid)
}

// start starts headquarters, and returns its process and what ends it.
func (o *aCase) start(ctx context.Context, s *site.Site) (pid int, end func() error, err error) {
	if o.profile == "" {
		if err := s.Start(ctx); err != nil {
			return 0, nil, err
		}
		return s.PID(), func() error { return nil }, nil // the site does
	}
	profiled()
	hq, err := moveIn(ctx, s.Config())
	if err != nil {
		return 0, nil, err
	}
	return os.Getpid(), hq.stop, nil
}

// login bounds what the hash of a password takes headquarters when a terminal comes
// for the first time, on a machine that does other things too.
const login = 80 * time.Millisecond

// settle is what headquarters and the machine get to finish the connecting.
const settle = 500 * time.Millisecond

func (o *aCase) run(ctx context.Context, s *site.Site, w *worker, runs, pid int) (Row, error) {
	if err := pause(ctx, settle); err != nil {
		return Row{}, err
	}
	spent, err := inspect(o.profile)
	if err != nil {
		return Row{}, err
	}
	span, err := meter.Start(pid, w.cmd.Process.Pid)
	if err != nil {
		return Row{}, err
	}
	trigger, err := s.Ask(runs)
	if err != nil {
		return Row{}, err
	}
	last, err := w.done()
	if err != nil {
		select {
		case refusal := <-s.Refused():
			err = errors.Join(err, refusal)
		default:
		}
		return Row{}, errors.Join(err, ctx.Err())
	}
	used, err := span.Stop()
	if err != nil {
		return Row{}, err
	}
	allocations, size, err := spent.end(o.tasks)
	if err != nil {
		return Row{}, err
	}
	peak, err := meter.Memory(pid, meter.Peak)
	if err != nil {
		return Row{}, err
	}
	sums, err := w.stop(trigger)
	if err != nil {
		return Row{}, err
	}
	wall := last.Sub(trigger)
	row := Row{Sys: o.name(), N: o.tasks, W: o.terminals, Rep: o.rep, DispMS: sums.OfferMax, WallMS: ms(wall), TPS: float64(o.tasks) / wall.Seconds(),
		P50: sums.OfferP50, P99: sums.OfferP99, Max: sums.OfferMax, GrantP99: sums.GrantP99,
		CPUSrv: used.CPU[0].Seconds(), CPUWrk: used.CPU[1].Seconds(), RSSSrv: peak, RSSWrk: sums.Peak, Other: used.Other, Allocs: allocations, AllocBytes: size, Commit: bench.Commit()}
	if o.work > 0 {
		row.Think = o.work.String()
	}
	if o.hold {
		row.Ingest = float64(o.tasks) / (wall.Seconds() - sums.Released/1000)
	}
	row.Note = note(sums.Sums)
	return row, o.sound(sums.Sums)
}

// sound refuses a measurement in which not every task went its whole way once.
func (o *aCase) sound(s crowd.Sums) error {
	n := int64(o.tasks)
	if s.Offers != n || s.Grants != n || s.Receipts != n || s.Lost+s.Strays+s.Refused+s.Forged > 0 {
		return fmt.Errorf("the measurement is not sound: of %d tasks %+v", n, s)
	}
	if o.signed && s.Verified == 0 && o.tasks >= 64 {
		return errors.New("the measurement is not sound: no signature was seen")
	}
	return nil
}

// note names what should not be, and need not be a fault.
func note(s crowd.Sums) string {
	if s.Denied+s.Repeats+s.Reminders == 0 {
		return ""
	}
	return fmt.Sprintf("denied %d, repeated %d, reminders %d", s.Denied, s.Repeats, s.Reminders)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
