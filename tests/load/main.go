// Command load measures headquarters with a crowd of simulated terminals, which
// has a process of its own, and sets what it finds beside the programs that
// people would take instead.
//
//	go build -o bin/load ./tests/load
//	bin/load case -n 5000 -w 500          one dispatch, as a line of JSON
//
// Every command has -h.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"muster/tests/load/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("name a command: case, growth, conns, restart, agent, bench")
	}
	if args[0] == "work" { // what the other commands start
		return work(ctx, strings.Join(args[1:], " "), os.Stdin, out)
	}
	command, known := commands()[args[0]]
	if !known {
		return fmt.Errorf("there is no command %q", args[0])
	}
	f := flag.NewFlagSet("load "+args[0], flag.ContinueOnError)
	command.Flags(f)
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	line, err := command.Measure(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(line)
}

// command measures one thing, which becomes a line of JSON.
type command interface {
	Flags(f *flag.FlagSet)
	Measure(ctx context.Context) (any, error)
}

func commands() map[string]command {
	return map[string]command{
		"case": &aCase{}, "growth": &aGrowth{}, "conns": &conns{}, "restart": &restart{}, "agent": &agent{}, "bench": &bench.Bench{},
	}
}
