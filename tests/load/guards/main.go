// Command guards measures what the broker's guards cost: messages of QoS 1 a
// second from publishers to subscribers, through the bare MQTT library with its
// own TCP listener, and through our broker. Each broker runs as its own process;
// the two take turns, so that what else the machine does hits both.
//
//	go run ./tests/load/guards -runs 7
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
	pairs    int
	messages int
	bytes    int
	window   int
	runs     int
	profile  string
	serve    string
}

func main() {
	var o options
	flag.IntVar(&o.pairs, "pairs", 8, "publishers, with one subscriber each")
	flag.IntVar(&o.messages, "messages", 40_000, "messages of one run, over all pairs")
	flag.IntVar(&o.bytes, "bytes", 256, "size of a payload")
	flag.IntVar(&o.window, "window", 32, "messages of a pair that are under way at one moment")
	flag.IntVar(&o.runs, "runs", 7, "how often each broker is measured; medians are printed")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of our broker to this file")
	flag.StringVar(&o.serve, "serve", "", "be a broker, bare or guarded, until standard input ends; the measuring process starts them so")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	act := measure
	if o.serve != "" {
		act = serve
	}
	err := act(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guards:", err)
		os.Exit(1)
	}
}

// figure is one run: messages a second, and the broker's own processor time for
// one message.
type figure struct {
	rate float64
	cpu  time.Duration
}

func measure(ctx context.Context, o options) (err error) {
	bare, err := startBroker(ctx, bareBroker, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	guarded, err := startBroker(ctx, guardedBroker, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guarded.stop()) }()
	figures := map[string][]figure{}
	for run := range o.runs + 1 {
		order := []*broker{bare, guarded}
		if run%2 == 1 {
			slices.Reverse(order) // neither always goes first
		}
		for _, b := range order {
			f, err := once(ctx, b, o)
			if err != nil {
				return fmt.Errorf("%s: %w", b.kind, err)
			}
			if run > 0 { // the first one warms up
				figures[b.kind] = append(figures[b.kind], f)
			}
		}
	}
	show(figures, o)
	return nil
}

func show(figures map[string][]figure, o options) {
	fmt.Fprintf(os.Stdout, "%d pairs, %d messages of %d bytes a run, QoS 1, window %d, medians of %d runs\n", o.pairs, o.messages, o.bytes, o.window, o.runs)
	rate := func(f figure) float64 { return f.rate }
	cpu := func(f figure) float64 { return float64(f.cpu.Nanoseconds()) / 1e3 }
	for _, kind := range []string{bareBroker, guardedBroker} {
		fmt.Fprintf(os.Stdout, "%-8s %7.0f messages/s, %5.1f µs of the broker's processor time a message\n", kind, median(figures[kind], rate), median(figures[kind], cpu))
	}
	throughput := ratios(figures, rate)
	processor := ratios(figures, cpu)
	fmt.Fprintf(os.Stdout, "guarded/bare, round by round: throughput %.3f (%.3f to %.3f), processor time %.3f (%.3f to %.3f)\n",
		throughput[len(throughput)/2], throughput[0], throughput[len(throughput)-1],
		processor[len(processor)/2], processor[0], processor[len(processor)-1])
}

// ratios compares the two brokers within each round, which a machine that gets
// busier over time does not distort, and returns the ratios in order.
func ratios(figures map[string][]figure, of func(figure) float64) []float64 {
	var all []float64
	for i, f := range figures[guardedBroker] {
		all = append(all, of(f)/of(figures[bareBroker][i]))
	}
	slices.Sort(all)
	return all
}

func median(figures []figure, of func(figure) float64) float64 {
	var all []float64
	for _, f := range figures {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
