// Program broker runs the MQTT broker alone, for a headquarters that wants it
// apart from the dispatcher.
//
//	broker [-config configs/broker.yaml]
//	broker hash-password < file-with-one-password
//
// It decides nothing: the broker is package server.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"muster/broker/internal/app"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	hangup := make(chan os.Signal, 1) // one that waits stands for all
	signal.Notify(hangup, syscall.SIGHUP)
	code := app.Run(ctx, version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, hangup)
	stop()
	os.Exit(code)
}
