// Command edge-agent is the program of a store terminal: it takes headquarters'
// orders for its store, does each once, and keeps the answers until
// headquarters has them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"muster/edge-agent/app"
	"muster/internal/logs"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: edge-agent [flags]               work until SIGTERM or Ctrl-C
       edge-agent check-config [flags]  read and check configuration and identity only
       edge-agent enroll [flags]        get this terminal's identity from headquarters

flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "enroll" {
		return enroll(ctx, args[1:], stdout, stderr)
	}
	checkOnly := len(args) > 0 && args[0] == "check-config"
	if checkOnly {
		args = args[1:]
	}
	flags := flag.NewFlagSet("edge-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	var over app.Overrides
	path := flags.String("config", "", "configuration `file`; empty: the built-in defaults")
	flags.StringVar(&over.Store, "store", "", "store `id`, over the file's")
	flags.StringVar(&over.Terminal, "terminal", "", "terminal `id`, over the file's")
	flags.StringVar(&over.BrokerURL, "broker", "", "broker `URL`, over the file's")
	flags.StringVar(&over.WorkFolder, "work-folder", "", "`folder` of journal and outbox, over the file's")
	showVersion := flags.Bool("version", false, "print the version and leave")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "edge-agent: unknown argument %q\n", flags.Arg(0))
		flags.Usage()
		return 2
	}
	if *showVersion {
		fmt.Fprintln(stdout, "edge-agent", version)
		return 0
	}
	cfg, err := app.Load(*path, over)
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent:", err)
		return 1
	}
	if checkOnly {
		err = app.Check(cfg, stdout)
	} else {
		err = logAndServe(ctx, cfg, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent:", err)
		return 1
	}
	return 0
}

func logAndServe(ctx context.Context, cfg *app.Config, stderr io.Writer) error {
	log, err := logs.New(stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	return app.Run(ctx, cfg, app.Options{Version: version, Logger: log})
}
