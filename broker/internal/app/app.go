// Package app is the program broker: its flags, its configuration file and its
// start and stop.
//
// It knows nothing of MQTT; package server does.
package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"muster/broker/server"
	"muster/broker/server/users"
	"muster/internal/logs"
	"muster/internal/settings"
)

// stopGrace bounds an orderly stop; supervisors kill after 10 s or more.
const stopGrace = 8 * time.Second

const usage = `usage: broker [serve] [flags]          serve until SIGTERM or Ctrl-C; SIGHUP reads the users file again
       broker check-config [flags]     read the file and those it names only
       broker hash-password < file     print the hash of a password, for the users file
       broker version [-json]

Every key may also be given by the environment, as MUSTER_ and the key in capitals
with _ for each dot (MUSTER_LOG_LEVEL), and by -set, which goes over both.

flags:
`

// Config is the file configs/broker.yaml.
type Config struct {
	Broker server.Config `yaml:"broker"`
	Log    Log           `yaml:"log"`

	file *settings.File // where each key was given
}

// Log says what is logged and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // json or text
}

// Run is the program. It serves until ctx ends and returns the exit code: 0
// well, 1 failed, 2 misused.
//
// Each word of hangup has it read the users file again; nil: none comes.
func Run(ctx context.Context, version string, args []string, in io.Reader, out, errs io.Writer, hangup <-chan os.Signal) int {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	flags.SetOutput(errs)
	var from given
	flags.StringVar(&from.file, "config", "configs/broker.yaml", "configuration `file`")
	flags.StringVar(&from.file, "c", "configs/broker.yaml", "configuration `file`")
	flags.Var(&from.sets, "set", "`KEY=VALUE` over file and environment; may be repeated")
	effective := flags.Bool("print-effective", false, "check-config: print every key, secrets masked, and where it was given")
	asJSON := flags.Bool("json", false, "check-config, version: print JSON")
	showVersion := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() {
		fmt.Fprint(errs, usage)
		flags.PrintDefaults()
	}
	command := "serve"
	if len(args) > 0 && slices.Contains([]string{"serve", "check-config", "version"}, args[0]) {
		command, args = args[0], args[1:]
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case *showVersion, command == "version":
		err = printVersion(out, version, *asJSON)
	case command == "check-config" && flags.NArg() == 0:
		err = from.check(out, errs, *effective, *asJSON)
	case command == "serve" && flags.NArg() == 1 && flags.Arg(0) == "hash-password":
		err = hashPassword(in, out)
	case flags.NArg() > 0:
		flags.Usage()
		return 2
	default:
		err = from.serve(ctx, version, errs, hangup)
	}
	if err != nil {
		fmt.Fprintln(errs, "broker:", err)
		return 1
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

// load reads the file, the environment over it, and the flags over both.
func (g given) load() (Config, error) {
	over, err := settings.Over(os.Environ(), g.sets, &Config{})
	if err != nil {
		return Config{}, err
	}
	return LoadConfig(g.file, over...)
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
	cfg, err := g.load()
	if err != nil {
		return err
	}
	logger, err := logs.New(errs, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	s, err := server.New(cfg.Broker, server.Options{Logger: logger})
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	logger.Info("broker started", "version", version, "config", g.file)
	g.follow(ctx, s, logger, hangup)
	logger.Info("broker stops")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	return s.Stop(stopping)
}

// follow reads the users file again with each word, until ctx ends. What is wrong
// changes nothing.
func (g given) follow(ctx context.Context, s *server.Server, logger *slog.Logger, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		}
		cfg, err := g.load()
		if err == nil {
			var use func()
			if use, err = s.LoadUsers(cfg.Broker.UsersFile); err == nil {
				use()
			}
		}
		if err != nil {
			logger.Error("the users file was not taken in, the old one stays in force: mend it, and send SIGHUP once more", "error", err)
			continue
		}
		logger.Info("the users file was read again", "file", cfg.Broker.UsersFile)
	}
}

// check reads what serve reads, and says that it is sound.
func (g given) check(out, errs io.Writer, effective, asJSON bool) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	if err := cfg.Broker.CheckFiles(); err != nil {
		return err
	}
	all, err := cfg.Effective()
	if err != nil {
		return err
	}
	switch {
	case asJSON:
		err = json.NewEncoder(out).Encode(map[string]any{"effective": all})
	case effective:
		err = settings.WriteEffective(out, all)
	default:
		_, err = fmt.Fprintln(out, "configuration is valid")
	}
	for _, name := range settings.UnknownEnv(os.Environ(), &Config{}) {
		fmt.Fprintf(errs, "warning: the environment has %s, which is no key\n", name)
	}
	return err
}

// Effective lists every key with what it means in the end, defaults filled in, and
// where that was given.
func (c Config) Effective() ([]settings.Effective, error) {
	c.Broker = c.Broker.Filled()
	return c.file.Effective(&c)
}

// hashPassword reads one password, without its final line break, and writes the
// text for a users file.
func hashPassword(in io.Reader, out io.Writer) error {
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the password: %w", err)
	}
	hash, err := users.HashPassword([]byte(strings.TrimRight(line, "\r\n")))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, hash)
	return err
}

// LoadConfig reads a configuration file over the defaults. An unknown key, a
// value of the wrong kind and one out of range are errors that name file, line
// and key. Files that it names are resolved against its folder. Over it go the
// values, whose paths are relative to the folder where the program runs.
func LoadConfig(path string, over ...settings.Value) (Config, error) {
	cfg := Config{Broker: server.DefaultConfig(), Log: Log{Level: "info", Format: "json"}}
	file, err := settings.Load(path, &cfg)
	if err != nil {
		return Config{}, err
	}
	for _, name := range cfg.Broker.Files() {
		*name = settings.Resolve(path, *name)
	}
	if err := file.Put(&cfg, over); err != nil {
		return Config{}, err
	}
	cfg.file = file
	if err := cfg.Broker.Validate(); err != nil {
		var field *server.FieldError
		if errors.As(err, &field) {
			return Config{}, file.Errorf("$.broker."+field.Key, "%s", field.Problem)
		}
		return Config{}, err
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, cfg.Log.Level) {
		return Config{}, file.Errorf("$.log.level", "%q is not debug, info, warn or error", cfg.Log.Level)
	}
	if cfg.Log.Format != "json" && cfg.Log.Format != "text" {
		return Config{}, file.Errorf("$.log.format", "%q is neither json nor text", cfg.Log.Format)
	}
	return cfg, nil
}
