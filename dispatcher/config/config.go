// Package config reads dispatcher.yaml over the shipped defaults, refuses what cannot be
// meant, and reads the files that it names. It starts nothing and writes nothing.
package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // headquarters' zone must be known on a bare machine

	"muster/broker/server"
	"muster/configs"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/settings"
)

// The transports.
const (
	TransportEmbedded = "embedded"
	TransportMQTT     = "mqtt"
)

// OwnFiles is how many files headquarters itself may have open beside connections.
const OwnFiles = 256

// Config is dispatcher.yaml. Paths are relative to the file that names them; an
// empty stores or jobs path means the embedded defaults.
type Config struct {
	TopicRoot     string        `yaml:"topic_root"`
	TimeZone      string        `yaml:"time_zone"` // of report names, IANA
	DataFolder    string        `yaml:"data_folder"`
	ReportsFolder string        `yaml:"reports_folder"`
	Reports       Reports       `yaml:"reports"`
	StoresFile    string        `yaml:"stores_file"`
	JobsFolder    string        `yaml:"jobs_folder"`
	Transport     string        `yaml:"transport"`
	Broker        server.Config `yaml:"broker"`
	MQTT          MQTT          `yaml:"mqtt"`
	Identity      Identity      `yaml:"identity"`
	Enrolment     Enrolment     `yaml:"enrolment"`
	Admin         Admin         `yaml:"admin"`
	Approval      Approval      `yaml:"approval"`
	Admission     Admission     `yaml:"admission"`
	Collection    Collection    `yaml:"collection"`
	Log           Log           `yaml:"log"`

	file *settings.File // where each key was given
}

// Reports says which report files stay: those of a run younger than so many days, and
// of the newest so many runs of each job. 0: that bound keeps nothing by itself; both
// 0: everything stays. The newest run of a job always stays.
type Reports struct {
	KeepDays int `yaml:"keep_days"`
	KeepRuns int `yaml:"keep_runs"`
}

// MQTT says how to reach an external broker.
type MQTT struct {
	URL          string `yaml:"url"` // mqtt://host:1883, mqtts://, ws://, wss://
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`
	CAFile       string `yaml:"ca_file"`
	// CertFile and KeyFile are the certificate with which headquarters logs in.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// AllowPlaintext reaches a broker on another machine without TLS.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// UsersFile says who may ask for what: an external broker authenticates,
	// headquarters decides. Empty: whoever the broker lets in is an operator.
	UsersFile string `yaml:"users_file"`
	// TrustRequests believes the broker about who asks. Otherwise, with an
	// identity, what changes something must be signed by the user's key.
	TrustRequests bool `yaml:"trust_requests"`
}

// Identity is who headquarters is. An empty folder means that nothing is signed
// and nothing demanded: for one machine.
type Identity struct {
	Folder string `yaml:"folder"` // made by dispatcher init
	// BrokerFolder gets copies of what a broker of headquarters' own needs that
	// runs apart, so that it never sees the authority's key. "": none.
	BrokerFolder string `yaml:"broker_folder"`
}

// Enrolment is where terminals get their certificates, over HTTPS. An empty
// address is off.
type Enrolment struct {
	Address string `yaml:"address"` // host:port
	URL     string `yaml:"url"`     // as terminals reach it; "" is made of the address
}

// Admin is the line of the commands on this machine.
type Admin struct {
	Address string `yaml:"address"` // loopback host:port; port 0 is any
}

// Approval says when a second person must agree.
type Approval struct {
	OverStores int `yaml:"over_stores"` // a run over more; 0: only where the job says so
}

// Admission bounds what runs in all stores together.
type Admission struct {
	MaxRunning      int     `yaml:"max_running"`       // 1 to 1,000,000
	GrantsPerSecond float64 `yaml:"grants_per_second"` // 0.001 to 1,000,000
	GrantBurst      int     `yaml:"grant_burst"`       // 1 to 1,000,000
}

// Collection bounds the large results on their way in.
type Collection struct {
	InFlight       int `yaml:"in_flight"`        // 1 to 10,000
	BytesPerSecond int `yaml:"bytes_per_second"` // 1,024 to 2,000,000,000
	BurstBytes     int `yaml:"burst_bytes"`      // one whole result to 2,000,000,000
}

// Log says how the program logs.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // text, json
}

// Load reads the configuration at path over the embedded defaults; an empty
// path means the defaults alone. Over it go the values, whose paths are relative to
// the folder where the program runs. The error names file, line and key.
func Load(path string, over ...settings.Value) (Config, error) {
	cfg, err := read(path, over)
	if err != nil {
		return Config{}, err
	}
	return cfg, cfg.check(cfg.file)
}

// LoadAgain is Load while headquarters runs: it reads no pipe, nor anything else that
// is no regular file.
func LoadAgain(path string, over ...settings.Value) (Config, error) {
	if err := files.CheckPlain(path); err != nil {
		return Config{}, fmt.Errorf("cannot read configuration: %w", err)
	}
	cfg, err := read(path, over)
	if err == nil {
		err = cfg.file.CheckPlain(&cfg)
	}
	if err != nil {
		return Config{}, err
	}
	return cfg, cfg.check(cfg.file)
}

// StillNames refuses a configuration that no longer names a register, jobs or users,
// where the one before did. A file that was cut off reads so, and every store would be
// retired for those of the examples.
func (c Config) StillNames(before Config) error {
	for _, one := range []struct{ key, was, is, instead string }{
		{"stores_file", before.StoresFile, c.StoresFile, "the built-in example stores"},
		{"jobs_folder", before.JobsFolder, c.JobsFolder, "the built-in jobs"},
		{"broker.users_file", before.Broker.UsersFile, c.Broker.UsersFile, "nobody, or everybody,"},
		{"mqtt.users_file", before.MQTT.UsersFile, c.MQTT.UsersFile, "everybody"},
	} {
		if one.was != "" && one.is == "" {
			return c.about(one.key, fmt.Errorf("is gone, it was %s, and %s would count in its place: name it again, or start headquarters anew if that is meant", one.was, one.instead))
		}
	}
	return nil
}

// read is Load before what was read is checked.
func read(path string, over []settings.Value) (Config, error) {
	var cfg Config
	data, err := configs.FS.ReadFile("dispatcher.yaml")
	if err != nil {
		return Config{}, fmt.Errorf("cannot read the embedded configuration: %w", err)
	}
	file, err := settings.Decode("dispatcher.yaml (embedded)", data, &cfg)
	if err != nil {
		return Config{}, err
	}
	if path != "" {
		cfg.StoresFile, cfg.JobsFolder = "", ""
		if file, err = settings.Load(path, &cfg); err != nil {
			return Config{}, err
		}
		for _, p := range cfg.paths() {
			*p = settings.Resolve(path, *p)
		}
	}
	if err := file.Put(&cfg, over); err != nil {
		return Config{}, err
	}
	if own := cfg.Broker.TopicRoot; own != "" && own != cfg.TopicRoot {
		return Config{}, file.Errorf("$.broker.topic_root", "%q is not topic_root, %q; leave it out", own, cfg.TopicRoot)
	}
	cfg.Broker.TopicRoot = cfg.TopicRoot
	cfg.file = file
	cfg.useIdentity()
	return cfg, nil
}

// paths are where the paths stand that the configuration names.
func (c *Config) paths() []*string {
	own := []*string{&c.DataFolder, &c.ReportsFolder, &c.StoresFile, &c.JobsFolder,
		&c.MQTT.PasswordFile, &c.MQTT.CAFile, &c.MQTT.CertFile, &c.MQTT.KeyFile, &c.MQTT.UsersFile, &c.Identity.Folder, &c.Identity.BrokerFolder}
	return append(own, c.Broker.Files()...)
}

// Database is the path of the database.
func (c Config) Database() string { return filepath.Join(c.DataFolder, "muster.db") }

// Effective lists every key with what it means in the end, defaults filled in, paths
// absolute and secrets masked, and where that was given.
func (c Config) Effective() ([]settings.Effective, error) {
	c.Broker = c.Broker.Filled()
	for _, path := range c.paths() {
		*path = settings.Absolute(*path)
	}
	return c.file.Effective(&c)
}

func (c Config) check(file *settings.File) error {
	if !protocol.ValidRoot(c.TopicRoot) {
		return file.Errorf("$.topic_root", "%q is not a topic root; write levels of A-Z a-z 0-9 . _ - such as muster/v1", c.TopicRoot)
	}
	if _, err := time.LoadLocation(c.TimeZone); err != nil || c.TimeZone == "" || c.TimeZone == "Local" {
		return file.Errorf("$.time_zone", "%q is no IANA time zone; write one such as Asia/Shanghai", c.TimeZone)
	}
	if err := c.checkFolders(file); err != nil {
		return err
	}
	for key, n := range map[string]int{"keep_days": c.Reports.KeepDays, "keep_runs": c.Reports.KeepRuns} {
		if n < 0 || n > 1_000_000 {
			return file.Errorf("$.reports."+key, "%d is out of range; write 0 to 1000000", n)
		}
	}
	if err := c.checkTransport(file); err != nil {
		return err
	}
	if err := c.checkTrust(file); err != nil {
		return err
	}
	return c.checkLimits(file)
}

// checkFolders refuses folders where no files stay, and those that would give away
// what stands in another: reports are for many to read.
func (c Config) checkFolders(file *settings.File) error {
	folders := []struct{ key, path string }{{"data_folder", c.DataFolder}, {"reports_folder", c.ReportsFolder},
		{"identity.folder", c.Identity.Folder}, {"identity.broker_folder", c.Identity.BrokerFolder}}
	for i, folder := range folders {
		if i > 1 && folder.path == "" {
			continue // both of an identity may be off
		}
		if err := files.CheckFolder(folder.path); err != nil {
			return file.Errorf("$."+folder.key, "%w", err)
		}
	}
	data, reports, identity, copies := folders[0], folders[1], folders[2], folders[3]
	for _, pair := range []struct {
		open, private struct{ key, path string }
		why           string
	}{
		{reports, data, "people read the reports, and nobody may read the database"},
		{reports, identity, "people read the reports, and nobody may read headquarters' keys"},
		{copies, data, "a broker reads what is in it, and nobody may read the database"},
		{copies, identity, "a broker reads what is in it, and must not see the authority's key"},
	} {
		if pair.open.path != "" && pair.private.path != "" && files.Inside(pair.open.path, pair.private.path) {
			return file.Errorf("$."+pair.open.key, "must not be, or be around, %s: %s; name a folder of its own", pair.private.key, pair.why)
		}
	}
	return nil
}

// Located says where the key was given that an error of the broker is about.
func (c Config) Located(err error) error {
	var field *server.FieldError
	if errors.As(err, &field) {
		return c.about("broker."+field.Key, field.Fault)
	}
	return err
}

// about is an error about a key.
func (c Config) about(key string, err error) error {
	if c.file == nil { // made by a program, not read
		return fmt.Errorf("%s: %w", key, err)
	}
	return c.file.Errorf("$."+key, "%w", err)
}

func (c Config) checkTransport(file *settings.File) error {
	switch c.Transport {
	case TransportEmbedded:
		return c.Located(c.Broker.Validate(func(key string) bool { return file.Given("broker." + key) }))
	case TransportMQTT:
	default:
		return file.Errorf("$.transport", "%q is not known; write embedded or mqtt", c.Transport)
	}
	return c.checkMQTT(file)
}

// maxBytes bounds what is given in bytes: more than a line of 10 Gbit/s carries in a
// second.
const maxBytes = 2_000_000_000

func (c Config) checkLimits(file *settings.File) error {
	a, b := c.Admission, c.Collection
	switch {
	case a.MaxRunning < 1 || a.MaxRunning > 1_000_000:
		return file.Errorf("$.admission.max_running", "%d is out of range; write 1 to 1000000", a.MaxRunning)
	case !(a.GrantsPerSecond >= 0.001 && a.GrantsPerSecond <= 1_000_000): // NaN is in no range
		return file.Errorf("$.admission.grants_per_second", "%v is out of range; write a number from 0.001 to 1000000", a.GrantsPerSecond)
	case a.GrantBurst < 1 || a.GrantBurst > 1_000_000:
		return file.Errorf("$.admission.grant_burst", "%d is out of range; write 1 to 1000000", a.GrantBurst)
	case b.InFlight < 1 || b.InFlight > 10_000:
		return file.Errorf("$.collection.in_flight", "%d is out of range; write 1 to 10000", b.InFlight)
	case b.BytesPerSecond < 1024 || b.BytesPerSecond > maxBytes:
		return file.Errorf("$.collection.bytes_per_second", "%d is out of range; write 1024 to %d", b.BytesPerSecond, maxBytes)
	case b.BurstBytes < protocol.MaxResultBytes || b.BurstBytes > maxBytes:
		return file.Errorf("$.collection.burst_bytes", "%d is out of range; write %d (one whole result) to %d", b.BurstBytes, protocol.MaxResultBytes, maxBytes)
	case !strings.Contains(" debug info warn error ", " "+c.Log.Level+" "):
		return file.Errorf("$.log.level", "%q is not known; write debug, info, warn or error", c.Log.Level)
	case c.Log.Format != "text" && c.Log.Format != "json":
		return file.Errorf("$.log.format", "%q is not known; write text or json", c.Log.Format)
	}
	return nil
}
