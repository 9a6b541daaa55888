// Package config reads and checks the configuration of a terminal.
//
// It opens no connection and starts nothing; what it returns is ready to use.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/configs"
	"muster/edge-agent/internal/collect"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/settings"
)

// Config is the configuration file. Defaults stand in configs/edge-agent.yaml.
type Config struct {
	Store       string            `yaml:"store"`
	Terminal    string            `yaml:"terminal"`
	TimeZone    string            `yaml:"time_zone"` // IANA name
	Identity    Identity          `yaml:"identity"`
	Broker      Broker            `yaml:"broker"`
	WorkFolder  string            `yaml:"work_folder"`
	TopicRoot   string            `yaml:"topic_root"`
	MaxParallel int               `yaml:"max_parallel"` // 1 to 64
	Labels      map[string]string `yaml:"labels"`
	Refuse      Refuse            `yaml:"refuse"`
	Collect     collect.Config    `yaml:"collect"`
	Executors   []Executor        `yaml:"executors"`
	Log         Log               `yaml:"log"`

	file     *settings.File // where each key was given
	password string         // of broker.password_file
}

// Identity is how the terminal proves who it is and knows headquarters.
type Identity struct {
	Folder string `yaml:"folder"` // of the enrolment; "" means identity off
	// Headquarters and TokenFile are for a terminal that enrols by itself when
	// the folder holds no identity yet.
	Headquarters string `yaml:"headquarters"` // https, of headquarters' enrolment
	TokenFile    string `yaml:"token_file"`   // of dispatcher enroll; may come later
}

// Broker is how to reach headquarters.
type Broker struct {
	URL string `yaml:"url"` // mqtt, mqtts, ws or wss
	// AllowPlaintext reaches a broker on another machine without TLS.
	AllowPlaintext bool   `yaml:"allow_plaintext"`
	User           string `yaml:"user"`     // "" means store/terminal
	Password       string `yaml:"password"` // or
	PasswordFile   string `yaml:"password_file"`
	CAFile         string `yaml:"ca_file"` // PEM; "" means the identity's, else the system's
	MinTLS         string `yaml:"min_tls"` // 1.3 or 1.2
}

// Refuse names the conditions under which nothing is run; 0 means no limit.
type Refuse struct {
	MinBatteryPct float64 `yaml:"min_battery_pct"`
	MaxLoad       float64 `yaml:"max_load"` // run queue a core
	MinDiskFreeMB int64   `yaml:"min_disk_free_mb"`
}

// Executor is an external program for one job version.
type Executor struct {
	Type           string   `yaml:"type"`
	Version        int      `yaml:"version"`
	Command        []string `yaml:"command"`
	Folder         string   `yaml:"folder"`           // where it runs, "" the agent's own
	MaxOutputBytes int      `yaml:"max_output_bytes"` // 0 means 262144
}

// Log is how the agent logs.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // text, json
}

// Overrides are what environment and command line put over the file: Over first,
// then the flags of their own, where "" leaves what is there. Their paths are
// relative to the folder where the program runs.
type Overrides struct {
	Over                                   []settings.Value
	Store, Terminal, BrokerURL, WorkFolder string
}

// builtInName stands in errors about the defaults.
const builtInName = "configs/edge-agent.yaml (built in)"

// Load reads the file at path, or the built-in defaults when path is "", puts
// the overrides over it and checks everything. Keys that the file leaves out
// keep their defaults, but for store, which has none. Paths in the file are relative to
// it. An error names file, line and key.
func Load(path string, over Overrides) (*Config, error) {
	defaults, err := configs.FS.ReadFile("edge-agent.yaml")
	if err != nil {
		return nil, fmt.Errorf("cannot read the built-in configuration: %w", err)
	}
	c := &Config{}
	file, err := settings.Decode(builtInName, defaults, c)
	if err != nil {
		return nil, err
	}
	c.Store = "" // that of the shipped file is an example: whose terminal it is, nobody can guess
	if path != "" {
		// Lists and maps of the file stand for themselves.
		c.Labels, c.Collect, c.Executors = nil, collect.Config{}, nil
		if file, err = settings.Load(path, c); err != nil {
			return nil, err
		}
	}
	c.place(func(named string) string { return settings.Resolve(path, named) })
	c.file = file
	if err := file.Put(c, over.values()); err != nil {
		return nil, err
	}
	if c.Collect.TimeZone == "" {
		c.Collect.TimeZone = c.TimeZone
	}
	if err := c.check(file); err != nil {
		return nil, err
	}
	if c.Store == "" {
		return nil, c.nobodys(file, path)
	}
	return c, c.readPassword(file)
}

// nobodys is the error that no store is named.
func (c *Config) nobodys(file *settings.File, path string) error {
	const missing = "is missing: write the id that headquarters' register has for this store into the file, in quotes; or set MUSTER_STORE, or say -store ID"
	if path == "" {
		return errors.New("store " + missing)
	}
	return file.Errorf("$.store", missing)
}

// place puts each path where to says that it is. Lists and maps with paths are made anew.
func (c *Config) place(to func(named string) string) {
	for _, p := range []*string{&c.WorkFolder, &c.Identity.Folder, &c.Identity.TokenFile, &c.Broker.PasswordFile, &c.Broker.CAFile} {
		*p = to(*p)
	}
	c.Executors = slices.Clone(c.Executors)
	for i := range c.Executors {
		e := &c.Executors[i]
		// A program is sought in its folder, if it has one, and a bare name in PATH.
		if e.Folder == "" && len(e.Command) > 0 && filepath.Base(e.Command[0]) != e.Command[0] {
			e.Command = slices.Clone(e.Command)
			e.Command[0] = settings.Absolute(to(e.Command[0])) // else it would be bare beside ./agent.yaml
		}
		e.Folder = to(e.Folder)
	}
	for _, globs := range []*[]string{&c.Collect.Logs, &c.Collect.ConfigFiles} {
		*globs = slices.Clone(*globs)
		for i, glob := range *globs {
			(*globs)[i] = to(glob)
		}
	}
	encodings := make(map[string]string, len(c.Collect.Encodings))
	for glob, name := range c.Collect.Encodings {
		if collect.OfOnePlace(glob) {
			glob = to(glob)
		}
		encodings[glob] = name
	}
	c.Collect.Encodings = encodings
}

func (o Overrides) values() []settings.Value {
	values := slices.Clone(o.Over)
	for _, v := range []settings.Value{{Key: "store", Text: o.Store, From: "--store"}, {Key: "terminal", Text: o.Terminal, From: "--terminal"},
		{Key: "broker.url", Text: o.BrokerURL, From: "--broker"}, {Key: "work_folder", Text: o.WorkFolder, From: "--work-folder"}} {
		if v.Text != "" {
			values = append(values, v)
		}
	}
	return values
}

// Effective lists every key with what it means in the end, defaults filled in, paths
// absolute and secrets masked, and where that was given.
func (c *Config) Effective() ([]settings.Effective, error) {
	whole := *c
	whole.Broker.User, whole.Collect = c.User(), c.Collect.Filled()
	whole.place(settings.Absolute)
	for i := range whole.Executors {
		e := &whole.Executors[i]
		e.MaxOutputBytes = cmp.Or(e.MaxOutputBytes, protocol.MaxResultBytes)
	}
	return c.file.Effective(&whole)
}

// Given says of a configuration that was read from a file whether a key, such as
// broker.url, was given, and is no default.
func (c *Config) Given(key string) bool { return c.file.Given(key) }

const idRule = "must be 1 to 63 of the characters A-Z a-z 0-9 . _ - and begin with a letter or digit"

func (c *Config) check(file *settings.File) error {
	switch {
	case c.Store != "" && !protocol.ValidID(c.Store):
		return file.Errorf("$.store", "%s, not %q", idRule, c.Store)
	case !protocol.ValidID(c.Terminal):
		return file.Errorf("$.terminal", "%s, not %q", idRule, c.Terminal)
	case !protocol.ValidRoot(c.TopicRoot):
		return file.Errorf("$.topic_root", "each level %s, not %q", idRule, c.TopicRoot)
	case c.MaxParallel < 1 || c.MaxParallel > 64:
		return file.Errorf("$.max_parallel", "must lie between 1 and 64, not %d", c.MaxParallel)
	case tlsVersions[c.Broker.MinTLS] == 0:
		return file.Errorf("$.broker.min_tls", "must be \"1.3\" or \"1.2\", not %q", c.Broker.MinTLS)
	case c.Broker.Password != "" && c.Broker.PasswordFile != "":
		return file.Errorf("$.broker.password_file", "must be empty when password is given")
	}
	if err := files.CheckFolder(c.WorkFolder); err != nil {
		return file.Errorf("$.work_folder", "%w", err)
	}
	if _, err := time.LoadLocation(c.TimeZone); err != nil || c.TimeZone == "" || c.TimeZone == "Local" {
		return file.Errorf("$.time_zone", "must be a zone by its IANA name, such as Asia/Shanghai, not %q", c.TimeZone)
	}
	for _, check := range []func(*settings.File) error{c.checkBroker, c.checkIdentity, c.checkLabels, c.checkRefuse, c.checkExecutors, c.checkCollect, c.checkLog} {
		if err := check(file); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of the labels, in characters: those of a hello.
const maxLabels, maxLabel = 64, 200

func (c *Config) checkLabels(file *settings.File) error {
	if len(c.Labels) > maxLabels {
		return file.Errorf("$.labels", "are %d; at most %d may be given", len(c.Labels), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		value := c.Labels[key]
		switch {
		case !protocol.ValidID(key):
			return file.Errorf("$.labels", "%q is no name of a label: it %s", key, idRule)
		case utf8.RuneCountInString(value) > maxLabel || strings.ContainsFunc(value, unicode.IsControl):
			return file.Errorf("$.labels", "the value of %s must be at most %d characters, none of them a control character", key, maxLabel)
		}
	}
	return nil
}

// maxDiskMB is beyond any disk: 1 EiB.
const maxDiskMB = 1 << 40

func (c *Config) checkRefuse(file *settings.File) error {
	switch {
	case !(c.Refuse.MinBatteryPct >= 0 && c.Refuse.MinBatteryPct <= 100):
		return file.Errorf("$.refuse.min_battery_pct", "must lie between 0 and 100, not %v", c.Refuse.MinBatteryPct)
	case !(c.Refuse.MaxLoad >= 0 && c.Refuse.MaxLoad <= 1000):
		return file.Errorf("$.refuse.max_load", "must lie between 0 and 1000, not %v", c.Refuse.MaxLoad)
	case c.Refuse.MinDiskFreeMB < 0 || c.Refuse.MinDiskFreeMB > maxDiskMB:
		return file.Errorf("$.refuse.min_disk_free_mb", "must lie between 0 and %d, not %d", int64(maxDiskMB), c.Refuse.MinDiskFreeMB)
	}
	return nil
}

// maxVersion bounds the version of a job.
const maxVersion = 1_000_000

func (c *Config) checkExecutors(file *settings.File) error {
	// A program for collect_log takes the place of the built-in one.
	seen := map[protocol.JobVersion]bool{}
	for i, e := range c.Executors {
		at := func(key string) string { return fmt.Sprintf("$.executors[%d].%s", i, key) }
		job := protocol.JobVersion{Type: e.Type, Version: e.Version}
		switch {
		case !protocol.ValidID(e.Type):
			return file.Errorf(at("type"), "must be a job's name, not %q", e.Type)
		case e.Version < 1 || e.Version > maxVersion:
			return file.Errorf(at("version"), "must lie between 1 and %d, not %d", maxVersion, e.Version)
		case seen[job]:
			return file.Errorf(at("type"), "%s version %d has an executor already", e.Type, e.Version)
		case len(e.Command) == 0 || e.Command[0] == "":
			return file.Errorf(at("command"), "must name a program")
		case e.MaxOutputBytes < 0 || e.MaxOutputBytes > protocol.MaxResultBytes:
			return file.Errorf(at("max_output_bytes"), "must lie between 0 (the most) and %d, not %d", protocol.MaxResultBytes, e.MaxOutputBytes)
		}
		if e.Folder != "" {
			if err := files.LookAtFolder(e.Folder); err != nil {
				return file.Errorf(at("folder"), "%w", err)
			}
		}
		seen[job] = true
	}
	return nil
}

// refusedKey finds the key in an error of collect.New, "cannot use logs[0] ...".
var refusedKey = regexp.MustCompile(`^cannot use ([a-z_]+)`)

// checkCollect refuses a written 0 too, where one that is absent means the default.
func (c *Config) checkCollect(file *settings.File) error {
	for key, value := range map[string]int64{"max_result_bytes": int64(c.Collect.MaxResultBytes), "max_read_bytes": c.Collect.MaxReadBytes,
		"max_decompressed_bytes": c.Collect.MaxDecompressedBytes, "max_files": int64(c.Collect.MaxFiles)} {
		if value == 0 && file.Given("collect."+key) {
			return file.Errorf("$.collect."+key, "0 collects nothing: write how many, or leave the key out for the default")
		}
	}
	_, err := collect.New(c.Collect)
	if err == nil {
		return nil
	}
	path := "$.collect"
	if m := refusedKey.FindStringSubmatch(err.Error()); m != nil {
		path += "." + m[1]
	}
	return file.Errorf(path, "%v", err)
}

func (c *Config) checkLog(file *settings.File) error {
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		return file.Errorf("$.log.level", "must be debug, info, warn or error, not %q", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		return file.Errorf("$.log.format", "must be text or json, not %q", c.Log.Format)
	}
	return nil
}

// The job that the agent executes itself.
const (
	CollectLog        = "collect_log"
	CollectLogVersion = 1
)
