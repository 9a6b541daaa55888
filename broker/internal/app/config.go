package app

import (
	"errors"
	"fmt"
	"slices"

	"muster/broker/server"
	"muster/internal/files"
	"muster/internal/settings"
)

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

// LoadConfig reads a configuration file over the defaults. An unknown key, a
// value of the wrong kind and one out of range are errors that name file, line
// and key. Files that it names are resolved against its folder. Over it go the
// values, whose paths are relative to the folder where the program runs.
func LoadConfig(path string, over ...settings.Value) (Config, error) {
	cfg, err := readConfig(path, over)
	if err != nil {
		return Config{}, err
	}
	return cfg, cfg.check()
}

// LoadAgain is LoadConfig while the broker runs: it reads no pipe, nor anything else
// that is no regular file, and refuses a file without the users file that the
// configuration before named.
func LoadAgain(before Config, path string, over ...settings.Value) (Config, error) {
	if err := files.CheckPlain(path); err != nil {
		return Config{}, fmt.Errorf("cannot read configuration: %w", err)
	}
	cfg, err := readConfig(path, over)
	if err == nil {
		err = cfg.file.CheckPlain(&cfg)
	}
	if err == nil && before.Broker.UsersFile != "" && cfg.Broker.UsersFile == "" {
		err = cfg.file.Errorf("$.broker.users_file", "is gone, it was %s: name it again, or start the broker anew if that is meant", before.Broker.UsersFile)
	}
	if err != nil {
		return Config{}, err
	}
	return cfg, cfg.check()
}

func readConfig(path string, over []settings.Value) (Config, error) {
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
	return cfg, nil
}

func (c Config) check() error {
	if err := c.Broker.Validate(func(key string) bool { return c.file.Given("broker." + key) }); err != nil {
		return c.located(err)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		return c.file.Errorf("$.log.level", "%q is not debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "json" && c.Log.Format != "text" {
		return c.file.Errorf("$.log.format", "%q is neither json nor text", c.Log.Format)
	}
	return nil
}

// located says where the key was given that an error of the broker is about.
func (c Config) located(err error) error {
	var field *server.FieldError
	if errors.As(err, &field) {
		return c.file.Errorf("$.broker."+field.Key, "%w", field.Fault)
	}
	return err
}

// Effective lists every key with what it means in the end, defaults filled in and paths
// absolute, and where that was given.
func (c Config) Effective() ([]settings.Effective, error) {
	c.Broker = c.Broker.Filled()
	for _, path := range c.Broker.Files() {
		*path = settings.Absolute(*path)
	}
	return c.file.Effective(&c)
}

// unlike names the keys that differ and count from the next start on.
func (c Config) unlike(other Config) []string {
	mine, err := c.Effective()
	theirs, errOther := other.Effective()
	switch {
	case err != nil || errOther != nil:
		return nil
	case c.Broker.Anonymous:
		return settings.Changed(mine, theirs)
	}
	return settings.Changed(mine, theirs, "broker.users_file")
}
