// Package app is the program broker: its flags, its configuration file and its
// start and stop.
//
// It knows nothing of MQTT; package server does.
package app

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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

const usage = `usage: broker [-config file]               serve until SIGTERM or Ctrl-C
       broker check-config [-config file]  read the file and those it names only
       broker hash-password < file         print the hash of a password, for the users file
       broker -version

flags:
`

// Config is the file configs/broker.yaml.
type Config struct {
	Broker server.Config `yaml:"broker"`
	Log    Log           `yaml:"log"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // json or text
}

// Run is the program. It serves until ctx ends and returns the exit code: 0
// well, 1 failed, 2 misused.
func Run(ctx context.Context, version string, args []string, in io.Reader, out, errs io.Writer) int {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	flags.SetOutput(errs)
	path := flags.String("config", "configs/broker.yaml", "configuration `file`")
	showVersion := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() {
		fmt.Fprint(errs, usage)
		flags.PrintDefaults()
	}
	checkOnly := len(args) > 0 && args[0] == "check-config"
	if checkOnly {
		args = args[1:]
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case *showVersion:
		fmt.Fprintln(out, "broker", version)
		return 0
	case checkOnly && flags.NArg() == 0:
		err = check(*path, out)
	case !checkOnly && flags.NArg() == 1 && flags.Arg(0) == "hash-password":
		err = hashPassword(in, out)
	case flags.NArg() > 0:
		flags.Usage()
		return 2
	default:
		err = serve(ctx, version, *path, errs)
	}
	if err != nil {
		fmt.Fprintln(errs, "broker:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, version, path string, errs io.Writer) error {
	cfg, err := LoadConfig(path)
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
	logger.Info("broker started", "version", version, "config", path)
	<-ctx.Done()
	logger.Info("broker stops")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	return s.Stop(stopping)
}

// check reads what serve reads, and says that it is sound.
func check(path string, out io.Writer) error {
	cfg, err := LoadConfig(path)
	if err != nil {
		return err
	}
	if err := cfg.Broker.CheckFiles(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "configuration is valid")
	return err
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
// and key. Files that it names are resolved against its folder.
func LoadConfig(path string) (Config, error) {
	cfg := Config{Broker: server.DefaultConfig(), Log: Log{Level: "info", Format: "json"}}
	file, err := settings.Load(path, &cfg)
	if err != nil {
		return Config{}, err
	}
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
	for _, name := range cfg.Broker.Files() {
		*name = settings.Resolve(path, *name)
	}
	return cfg, nil
}
