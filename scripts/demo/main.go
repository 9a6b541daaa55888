// Command demo shows the whole of Muster on one machine: headquarters with its
// broker, twelve stores with files as shops really have them, one order, and
// the roll-call. It checks what it shows and ends with status 0 only if all of
// it is right.
//
// It uses the built programs as anybody would and knows nothing of their
// insides. It is also the external executors of two of its stores.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
	_ "time/tzdata" // the shops' zones must be known on a bare machine
)

// limit bounds the whole demo: a minute and a half is what a person waits.
const limit = 90 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var code int
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		code = execute(ctx, os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
	} else {
		code = run(ctx, os.Stdout)
	}
	stop()
	os.Exit(code)
}

// run plays the demo in the folder demo/ of the checkout and returns the exit
// status.
func run(ctx context.Context, out io.Writer) int {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took longer than %s", limit))
	defer cancel()
	work, err := filepath.Abs("demo")
	if err != nil {
		_, _ = fmt.Fprintln(out, "demo: cannot find the work folder:", err)
		return 1
	}
	if err := midnight(ctx, out); err != nil {
		_, _ = fmt.Fprintln(out, "demo:", err)
		return 1
	}
	s := &stage{out: out, work: work, began: time.Now(), shops: shops(), known: map[string]facts{}, happens: make(chan news, 1)}
	found, err := s.play(ctx)
	if err != nil {
		found.add("%v", err)
	}
	s.family.stop()
	if len(found) == 0 {
		s.say("Looked at, besides the tables:")
		for _, text := range s.looked {
			s.note("%s", text)
		}
		s.say("Reports: %s   logs: %s   the stores' files: %s",
			s.short(s.path("reports")), s.short(s.path("logs")), s.short(s.path("stores")))
		s.say("Everything is as it should be. (%.0f s)", time.Since(s.began).Seconds())
		return 0
	}
	s.say("NOT as it should be:")
	for _, finding := range found {
		_, _ = fmt.Fprintln(out, "  -", finding)
	}
	s.say("Logs of every program: %s", s.short(s.path("logs")))
	return 1
}

// midnight waits it out if it is about to strike at one of the shops.
func midnight(ctx context.Context, out io.Writer) error {
	wait, err := untilClear(shops(), time.Now())
	if err != nil || wait == 0 {
		return err
	}
	_, _ = fmt.Fprintf(out, "It is almost midnight at a store; waiting %.0f s for its new day.\n", wait.Seconds())
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
