package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/tests/load/bench"
	"muster/tests/load/crowd"
	"muster/tests/load/meter"
	"muster/tests/load/site"
)

// aGrowth is one run over more stores than a machine has descriptors: terminals
// and headquarters are in one process, so that its processor time is of both. Its
// report follows.
type aGrowth struct {
	parent   string
	stores   int
	bytes    int
	patience time.Duration
	rep      int
}

// Flags registers what one can ask for.
func (o *aGrowth) Flags(f *flag.FlagSet) {
	f.StringVar(&o.parent, "folder", "", "where headquarters' folder is made (default: the system's for temporary files)")
	f.IntVar(&o.stores, "n", 100_000, "stores, with one task each; all but one have a terminal")
	f.IntVar(&o.bytes, "bytes", 1024, "size of one result, about")
	f.DurationVar(&o.patience, "patience", 5*time.Minute, "how long it may take")
	f.IntVar(&o.rep, "rep", 0, "the repetition, for the row")
}

// Measure measures once.
func (o *aGrowth) Measure(ctx context.Context) (line any, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	s, err := site.New(ctx, site.Options{Parent: o.parent, Stores: o.stores, Terminals: o.tasks(), Runs: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	hq, err := moveIn(ctx, s.Config())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, hq.stop()) }()
	if err := s.Hire(ctx); err != nil {
		return nil, err
	}
	c, err := hq.inhabit(ctx, crowd.Options{Terminals: o.tasks(), Tasks: o.tasks(), Bytes: o.bytes})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	row, err := o.dispatch(ctx, s, c)
	if err != nil {
		return nil, err
	}
	if err := o.report(ctx, s, &row); err != nil {
		return nil, err
	}
	return row, nil
}

// tasks are those that are done: the last store's is open until the report.
func (o *aGrowth) tasks() int { return o.stores - 1 }

func (o *aGrowth) dispatch(ctx context.Context, s *site.Site, c *crowd.Crowd) (Row, error) {
	if err := pause(ctx, settle); err != nil {
		return Row{}, err
	}
	span, err := meter.Start(os.Getpid())
	if err != nil {
		return Row{}, err
	}
	trigger, err := s.Ask(1)
	if err != nil {
		return Row{}, err
	}
	select {
	case <-c.Done():
	case err := <-c.Failed():
		return Row{}, err
	case err := <-s.Refused():
		return Row{}, err
	case <-ctx.Done():
		return Row{}, fmt.Errorf("of %d tasks %+v: %w", o.tasks(), c.Count(trigger), ctx.Err())
	}
	used, err := span.Stop()
	if err != nil {
		return Row{}, err
	}
	peak, err := meter.Memory(os.Getpid(), meter.Peak)
	if err != nil {
		return Row{}, err
	}
	wall, sums := c.Last().Sub(trigger), c.Count(trigger)
	row := Row{Sys: "muster-inside", N: o.tasks(), W: o.tasks(), Rep: o.rep, DispMS: sums.OfferMax, WallMS: ms(wall), TPS: float64(o.tasks()) / wall.Seconds(),
		P50: sums.OfferP50, P99: sums.OfferP99, Max: sums.OfferMax, GrantP99: sums.GrantP99, CPUSrv: used.CPU[0].Seconds(), RSSSrv: peak,
		Other: used.Other, Commit: bench.Commit(), Note: note(sums)}
	return row, (&aCase{tasks: o.tasks()}).sound(sums)
}

// report withdraws the one task that is open and waits for the files of the
// report, first the one that machines read, then all.
func (o *aGrowth) report(ctx context.Context, s *site.Site, row *Row) error {
	var run string
	select {
	case reply := <-s.Accepted:
		run = reply.RunID
	case <-ctx.Done():
		return ctx.Err()
	}
	begin := time.Now()
	if err := s.Cancel(run, crowd.StoreID(o.tasks())); err != nil {
		return err
	}
	for row.ReportMS == 0 {
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("no report: %w", err)
		}
		there, err := reported(filepath.Join(s.Folder, "reports"))
		if err != nil {
			return err
		}
		if there {
			row.ReportMS = ms(time.Since(begin))
		}
	}
	select {
	case summary := <-s.Summaries:
		row.AllMS = ms(time.Since(begin))
		if summary.Counts.Succeeded != o.tasks() {
			return fmt.Errorf("the report says %+v of %d targets", summary.Counts, summary.Targets)
		}
		return nil
	case err := <-s.Refused():
		return err
	case <-ctx.Done():
		return fmt.Errorf("no summary: %w", ctx.Err())
	}
}

// reported says whether the JSON of a report stands there under its own name.
func reported(folder string) (found bool, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, "_manifest.json") {
			found = true
		}
		return err
	})
	return found, err
}
