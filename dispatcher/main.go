// Command dispatcher is headquarters: it takes orders, admits terminals,
// collects results and publishes the report. See ARCHITECTURE.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// commands returns every command but those that cobra adds, new ones on each call.
// The stop of serve has bounds of its own.
func commands() []*cobra.Command {
	return append(stoppable(append(cli.Commands(), checkConfigCommand(), doctorCommand(), versionCommand())), serveCommand())
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "dispatcher",
		Short:         "Muster headquarters: one order to every store, one honest report",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(commands()...)
	wordMisuse(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if text := err.Error(); text != "" {
		_, _ = fmt.Fprintln(stderr, "dispatcher:", text)
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 2
}
