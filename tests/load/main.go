// Command load measures one run over many terminals: how long an offer takes
// from the trigger to each online terminal, how long until everything is
// reported, and what headquarters needs for it. Headquarters runs as its own
// process, the terminals in this one, each over a connection of its own.
//
//	go run ./tests/load -dispatcher bin/dispatcher -terminals 1000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"
)

type options struct {
	dispatcher string
	terminals  int
	runs       int
	work       time.Duration
	bytes      int
	claimAfter time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.dispatcher, "dispatcher", "bin/dispatcher", "the program to measure")
	flag.IntVar(&o.terminals, "terminals", 1000, "stores, with one terminal each")
	flag.IntVar(&o.runs, "runs", 3, "how often; medians are printed")
	flag.DurationVar(&o.work, "work", 0, "how long one execution takes")
	flag.IntVar(&o.bytes, "bytes", 1024, "size of one result")
	flag.DurationVar(&o.claimAfter, "claim-after", 0, "how long a terminal thinks about an offer: with less than the fan-out takes, the terminals' own work, which shares this machine, is in the offer's latency")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measure(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) (err error) {
	s, err := newSite(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	var figures []figure
	for range o.runs {
		f, err := s.run(ctx)
		if err != nil {
			return err
		}
		figures = append(figures, f)
	}
	peak, err := peakMiB(s.hq.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("terminals %d, result %d bytes, claim after %v, work %v, runs %d (medians)\n", o.terminals, o.bytes, o.claimAfter, o.work, o.runs)
	fmt.Printf("trigger to offer: p50 %v, p99 %v, last %v\n",
		median(figures, func(f figure) time.Duration { return f.p50 }),
		median(figures, func(f figure) time.Duration { return f.p99 }),
		median(figures, func(f figure) time.Duration { return f.last }))
	fmt.Printf("trigger to report: %v\n", median(figures, func(f figure) time.Duration { return f.reported }))
	fmt.Printf("headquarters: peak %d MiB resident\n", peak)
	return nil
}

// figure is what one run took.
type figure struct{ p50, p99, last, reported time.Duration }

func median(figures []figure, of func(figure) time.Duration) time.Duration {
	var all []time.Duration
	for _, f := range figures {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return all[len(all)/2].Round(100 * time.Microsecond)
}
