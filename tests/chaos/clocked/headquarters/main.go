// Command headquarters is dispatcher serve with a wall clock that a file sets.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
	"muster/internal/logs"
	"muster/tests/chaos/clocked"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "headquarters:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	file := flag.String("config", "", "configuration `file`")
	offset := flag.String("offset-file", "", "`file` that says how far the clock is off")
	flag.Parse()
	cfg, err := config.Load(*file)
	if err != nil {
		return err
	}
	log, err := logs.New(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	return app.Run(ctx, cfg, app.Options{Version: "clocked", Logger: log, Wall: clocked.Wall(*offset), Ready: func(addr string) {
		log.Info("headquarters is ready", "address", addr)
	}})
}
