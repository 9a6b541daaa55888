package app

import (
	"errors"
	"slices"

	"muster/broker/server"
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
	if err := cfg.Broker.Validate(func(key string) bool { return file.Given("broker." + key) }); err != nil {
		return Config{}, cfg.located(err)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, cfg.Log.Level) {
		return Config{}, file.Errorf("$.log.level", "%q is not debug, info, warn or error", cfg.Log.Level)
	}
	if cfg.Log.Format != "json" && cfg.Log.Format != "text" {
		return Config{}, file.Errorf("$.log.format", "%q is neither json nor text", cfg.Log.Format)
	}
	return cfg, nil
}

// located says where the key was given that an error of the broker is about.
func (c Config) located(err error) error {
	var field *server.FieldError
	if errors.As(err, &field) {
		return c.file.Errorf("$.broker."+field.Key, "%w", field.Fault)
	}
	return err
}

// Effective lists every key with what it means in the end, defaults filled in, and
// where that was given.
func (c Config) Effective() ([]settings.Effective, error) {
	c.Broker = c.Broker.Filled()
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
