package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/heap"
	"muster/internal/files"
	"muster/internal/logs"
	"muster/internal/settings"
)

// given is where the configuration comes from.
type given struct {
	file string
	sets []string
}

func (g *given) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&g.file, "config", "c", "", "configuration file (default: the embedded one, on loopback)")
	f.StringArrayVar(&g.sets, "set", nil, "KEY=VALUE over file and environment, such as admission.max_running=500; may be repeated")
}

// load reads the file, the environment over it, and the flags over both. It gives up
// when ctx ends.
func (g *given) load(ctx context.Context) (config.Config, error) {
	return files.Await(ctx, func() (config.Config, error) { return g.by(config.Load) })
}

// again is load while headquarters runs.
func (g *given) again() (config.Config, error) { return g.by(config.LoadAgain) }

func (g *given) by(load func(file string, over ...settings.Value) (config.Config, error)) (config.Config, error) {
	over, err := settings.Over(os.Environ(), g.sets, &config.Config{})
	if err != nil {
		return config.Config{}, err
	}
	return load(g.file, over...)
}

func serveCommand() *cobra.Command {
	var from given
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run headquarters until SIGTERM; SIGHUP reads jobs, stores, users and limits again",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load(cmd.Context())
			if err != nil {
				return err
			}
			log, err := logs.New(cmd.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			unknownVariables().Warn(log)
			defer heap.Hold(heap.Size)()
			hangup := make(chan os.Signal, 1) // one that waits stands for all
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			return app.Run(cmd.Context(), cfg, app.Options{Version: version, Logger: log, Again: from.again, Hangup: hangup, Ready: func(addr string) {
				log.Info("headquarters is ready", "address", addr, "version", version)
			}})
		},
	}
	from.flags(cmd)
	return cmd
}

// sound is a configuration without a fault, as check-config --json prints it.
type sound struct {
	OK        bool                 `json:"ok"` // true; else it is settings.Unsound
	Jobs      int                  `json:"jobs"`
	Stores    int                  `json:"stores"`
	Unknown   []string             `json:"unknownVariables"` // of the environment
	Effective []settings.Effective `json:"effective"`
}

// check reads what serve reads.
func (g *given) check(ctx context.Context) (cfg config.Config, found sound, err error) {
	if cfg, err = g.load(ctx); err != nil {
		return cfg, found, err
	}
	found = sound{OK: true, Unknown: unknownVariables().Names()}
	if found.Jobs, found.Stores, err = cfg.CheckLists(); err != nil {
		return cfg, found, err
	}
	if err = errors.Join(cfg.CheckFiles(), cfg.CheckFolders()); err != nil {
		return cfg, found, err
	}
	found.Effective, err = cfg.Effective()
	return cfg, found, err
}

func checkConfigCommand() *cobra.Command {
	var from given
	var effective, asJSON bool
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Read configuration, jobs, stores, users and certificates, and say what is wrong",
		Long: `Read what serve reads and say what is wrong, with file, line and key. Every key may also be given by the
environment, as MUSTER_ and the key in capitals with _ for each dot (MUSTER_ADMISSION_MAX_RUNNING), and by --set,
which goes over both. An empty variable counts as none. Lists and maps are YAML: '[a, b]'.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, found, err := from.check(cmd.Context())
			if err != nil {
				if asJSON {
					_ = screen.JSON(cmd.OutOrStdout(), settings.Unsound{Fault: err.Error()}) // the error is told besides
				}
				return err
			}
			switch {
			case asJSON:
				return screen.JSON(cmd.OutOrStdout(), found)
			case effective:
				err = settings.WriteEffective(cmd.OutOrStdout(), found.Effective)
			default:
				screen.Say(cmd.OutOrStdout(), "configuration is valid: jobs %d, stores %d\n", found.Jobs, found.Stores)
			}
			if open := files.CheckGuarded(cfg.UsersFile()); open != nil {
				screen.Say(cmd.ErrOrStderr(), "warning: %v\n", open)
			}
			for _, old := range cfg.Ended(time.Now()) {
				screen.Say(cmd.ErrOrStderr(), "warning: %v; clients will refuse it: give the listener a new one, or set this machine's clock right\n", old)
			}
			for _, stray := range unknownVariables() {
				screen.Say(cmd.ErrOrStderr(), "warning: %v\n", stray)
			}
			return err
		},
	}
	from.flags(cmd)
	cmd.Flags().BoolVar(&effective, "print-effective", false, "print every key with its value, secrets masked, and where it was given")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON")
	return cmd
}

// unknownVariables are those that mean nothing to this program.
func unknownVariables() settings.Strays {
	return settings.UnknownEnv(os.Environ(), &config.Config{}, screen.Variables()...)
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and how it was built",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			about := settings.Build(version)
			if asJSON {
				return screen.JSON(cmd.OutOrStdout(), about)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "dispatcher %s\n", about)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}
