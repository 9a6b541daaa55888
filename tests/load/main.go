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
	"os/exec"
	"os/signal"
	"strings"
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
		return fmt.Errorf("name a command: case, work")
	}
	f := flag.NewFlagSet("load "+args[0], flag.ContinueOnError)
	switch args[0] {
	case "work": // what the other commands start
		return work(ctx, strings.Join(args[1:], " "), os.Stdin, out)
	case "case":
		var o aCase
		o.flags(f)
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		row, err := o.measure(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(row)
	}
	return fmt.Errorf("there is no command %q", args[0])
}

// commit is what is measured.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
