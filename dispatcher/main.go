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

	"muster/dispatcher/app"
	"muster/dispatcher/internal/cli"
	"muster/internal/logs"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
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
	root.AddCommand(serveCommand(), checkConfigCommand())
	root.AddCommand(cli.Commands()...)
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

func serveCommand() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run headquarters until SIGTERM",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(config)
			if err != nil {
				return err
			}
			log, err := logs.New(cmd.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), cfg, app.Options{Version: version, Logger: log, Ready: func(addr string) {
				log.Info("headquarters is ready", "address", addr, "version", version)
			}})
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "", "configuration file (default: the embedded one, on loopback)")
	return cmd
}

func checkConfigCommand() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Read configuration, jobs, stores, users and certificates, and say what is wrong",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(config)
			if err != nil {
				return err
			}
			found, err := app.Check(cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "configuration is valid: jobs %d, stores %d\n", found.Jobs, found.Stores)
			return err
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "", "configuration file (default: the embedded one)")
	return cmd
}
