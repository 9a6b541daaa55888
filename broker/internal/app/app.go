// Package app is the program broker: its flags, its configuration file, its start and
// stop, and what doctor looks at.
//
// It knows nothing of MQTT; package server does.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"muster/broker/server"
	"muster/broker/server/users"
	"muster/internal/doctor"
	"muster/internal/files"
	"muster/internal/logs"
	"muster/internal/settings"
	"muster/internal/usage"
)

// stopGrace bounds an orderly stop; supervisors kill after 10 s or more.
const stopGrace = 8 * time.Second

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

const help = `usage: broker [serve] [flags]          serve until SIGTERM or Ctrl-C; SIGHUP reads the users file again
       broker check-config [flags]     read the file and those it names only
       broker doctor [flags]           check the broker one thing at a time, each with its mend
       broker hash-password < file     print the hash of a password, for the users file
       broker version [-json]

Every key may also be given by the environment, as MUSTER_ and the key in capitals
with _ for each dot (MUSTER_LOG_LEVEL), and by -set, which goes over both.
Exit codes: 0 done, 1 failed, or doctor found something to mend, 2 wrong usage.

flags:
`

// commands are the words that a command line may begin with.
func commands() []string {
	return []string{"serve", "check-config", "doctor", "hash-password", "version", "help"}
}

// Run is the program. It serves until ctx ends and returns the exit code: 0
// well, 1 failed, 2 misused.
//
// Each word of hangup has it read the users file again; nil: none comes.
func Run(ctx context.Context, version string, args []string, in io.Reader, out, errs io.Writer, hangup <-chan os.Signal) int {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	var from given
	flags.StringVar(&from.file, "config", "configs/broker.yaml", "configuration `file`")
	flags.StringVar(&from.file, "c", "configs/broker.yaml", "configuration `file`")
	flags.Var(&from.sets, "set", "`KEY=VALUE` over file and environment; may be repeated")
	effective := flags.Bool("print-effective", false, "check-config: print every key, secrets masked, and where it was given")
	asJSON := flags.Bool("json", false, "check-config, doctor, version: print JSON")
	showVersion := flags.Bool("version", false, "print the version and exit")
	command, rest, err := usage.Line(flags, args, commands(), "broker")
	if err == nil && len(rest) > 0 {
		err = usage.Unknown("argument", rest[0], nil, "broker help")
	}
	switch {
	case errors.Is(err, flag.ErrHelp), err == nil && command == "help":
		fmt.Fprint(out, help)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return 0
	case err != nil:
		fmt.Fprintln(errs, "broker:", err)
		return exitUsage
	case *showVersion, command == "version":
		err = printVersion(out, version, *asJSON)
	case command == "check-config":
		err = from.check(ctx, out, errs, *effective, *asJSON)
	case command == "doctor":
		return from.doctor(ctx, out, *asJSON)
	case command == "hash-password":
		err = hashPassword(ctx, in, out)
	default:
		err = from.serve(ctx, version, errs, hangup)
	}
	if err != nil {
		fmt.Fprintln(errs, "broker:", err)
		return exitFailed
	}
	return 0
}

// given is where the configuration comes from.
type given struct {
	file string
	sets sets
}

// sets are the values of a flag that may be repeated.
type sets []string

func (s *sets) String() string { return strings.Join(*s, " ") }

// Set takes one more.
func (s *sets) Set(value string) error { *s = append(*s, value); return nil }

// load reads the file, the environment over it, and the flags over both. It gives up
// when ctx ends.
func (g given) load(ctx context.Context) (Config, error) {
	over, err := settings.Over(os.Environ(), g.sets, &Config{})
	if err != nil {
		return Config{}, err
	}
	return files.Await(ctx, func() (Config, error) { return LoadConfig(g.file, over...) })
}

// patience bounds how long a reload may take to read: the largest users file takes
// seconds, and a disk that is away takes for ever.
const patience = time.Minute

// taken is what a reload has read; use puts its users into force.
type taken struct {
	cfg Config
	use func()
}

// again reads the configuration and the users file while the broker runs.
func (g given) again(ctx context.Context, s *server.Server, before Config) (taken, error) {
	over, err := settings.Over(os.Environ(), g.sets, &Config{})
	if err != nil {
		return taken{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return files.Await(ctx, func() (taken, error) {
		cfg, err := LoadAgain(before, g.file, over...)
		if err != nil {
			return taken{}, err
		}
		use, err := s.LoadUsers(cfg.Broker.UsersFile)
		return taken{cfg, use}, err
	})
}

func printVersion(out io.Writer, version string, asJSON bool) error {
	about := settings.Build(version)
	if asJSON {
		return json.NewEncoder(out).Encode(about)
	}
	_, err := fmt.Fprintln(out, "broker", about)
	return err
}

func (g given) serve(ctx context.Context, version string, errs io.Writer, hangup <-chan os.Signal) error {
	cfg, err := g.load(ctx)
	if err != nil {
		return err
	}
	logger, err := logs.New(errs, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	unknownVariables().Warn(logger)
	s, err := files.Await(ctx, func() (*server.Server, error) {
		return server.New(cfg.Broker, server.Options{Logger: logger, OwnFiles: ownFiles})
	})
	if err != nil {
		return cfg.located(err)
	}
	if err := s.Start(ctx); err != nil {
		return cfg.located(err)
	}
	logger.Info("broker started", "version", version, "config", g.file)
	g.follow(ctx, s, cfg, logger, hangup)
	logger.Info("broker stops")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	return s.Stop(stopping)
}

// follow reads the configuration and the users file again with each word, until ctx
// ends. What is wrong changes nothing; keys that need a restart are named.
func (g given) follow(ctx context.Context, s *server.Server, started Config, logger *slog.Logger, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		}
		now, err := g.again(ctx, s, started)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			logger.Error("the users file was not taken in, the old one stays in force: mend it, and send SIGHUP once more", "error", err)
			continue
		}
		now.use()
		if started.Broker.Anonymous {
			logger.Info("there is no users file to read again: the broker was started with anonymous: true")
		} else {
			logger.Info("the users file was read again", "file", now.cfg.Broker.UsersFile)
		}
		if keys := started.unlike(now.cfg); len(keys) > 0 {
			logger.Warn("these keys have changed too, and count from the next start on", "needs_restart", strings.Join(keys, " "))
		}
	}
}

// sound is a configuration without a fault, as check-config prints it as JSON.
type sound struct {
	OK        bool                 `json:"ok"`               // true; else it is settings.Unsound
	Unknown   []string             `json:"unknownVariables"` // of the environment
	Effective []settings.Effective `json:"effective"`
}

// look reads what serve reads.
func (g given) look(ctx context.Context) (cfg Config, all []settings.Effective, err error) {
	if cfg, err = g.load(ctx); err != nil {
		return cfg, nil, err
	}
	if _, err := files.Await(ctx, func() (struct{}, error) { return struct{}{}, cfg.Broker.CheckFiles() }); err != nil {
		return cfg, nil, cfg.located(err)
	}
	all, err = cfg.Effective()
	return cfg, all, err
}

// check says whether what serve reads is sound.
func (g given) check(ctx context.Context, out, errs io.Writer, effective, asJSON bool) error {
	cfg, all, err := g.look(ctx)
	if err != nil {
		if asJSON {
			_ = json.NewEncoder(out).Encode(settings.Unsound{Fault: err.Error()}) // the error is told besides
		}
		return err
	}
	switch {
	case asJSON:
		err = json.NewEncoder(out).Encode(sound{OK: true, Unknown: unknownVariables().Names(), Effective: all})
	case effective:
		err = settings.WriteEffective(out, all)
	default:
		_, err = fmt.Fprintln(out, "configuration is valid")
	}
	if open := files.CheckGuarded(cfg.Broker.UsersFile); open != nil {
		fmt.Fprintf(errs, "warning: %v\n", open)
	}
	for _, old := range cfg.Broker.Ended(time.Now()) {
		fmt.Fprintf(errs, "warning: %v; clients will refuse it: give the listener a new one, or set this machine's clock right\n", cfg.located(old))
	}
	for _, stray := range unknownVariables() {
		fmt.Fprintf(errs, "warning: %v\n", stray)
	}
	return err
}

// doctor returns the exit code.
func (g given) doctor(ctx context.Context, out io.Writer, asJSON bool) int {
	cfg, err := g.load(ctx)
	found := doctor.Run(ctx, checks(cfg, g.file, err))
	if asJSON {
		err = json.NewEncoder(out).Encode(found)
	} else {
		err = found.Write(out)
	}
	if err != nil || !found.OK {
		return exitFailed
	}
	return 0
}

// unknownVariables are those that mean nothing to this program.
func unknownVariables() settings.Strays { return settings.UnknownEnv(os.Environ(), &Config{}) }

// hashPassword reads one password, without its final line break, and writes the
// text for a users file.
func hashPassword(ctx context.Context, in io.Reader, out io.Writer) error {
	hash, err := files.Await(ctx, func() (string, error) { return users.HashFrom(in) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, hash)
	return err
}
