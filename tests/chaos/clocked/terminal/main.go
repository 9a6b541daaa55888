// Command terminal is edge-agent with a wall clock that a file sets.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"muster/edge-agent/app"
	"muster/internal/logs"
	"muster/tests/chaos/clocked"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "terminal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config := flag.String("config", "", "configuration `file`")
	offset := flag.String("offset-file", "", "`file` that says how far the clock is off")
	flag.Parse()
	cfg, err := app.Load(*config, app.Overrides{})
	if err != nil {
		return err
	}
	log, err := logs.New(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	return app.Run(ctx, cfg, app.Options{Version: "clocked", Logger: log, Wall: clocked.Wall(*offset)})
}
