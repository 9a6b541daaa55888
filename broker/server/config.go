package server

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"muster/broker/server/credential"
	"muster/internal/protocol"
	"muster/internal/settings"
)

// Config is the broker's part of a configuration file. Zero values of Limits
// mean their defaults; DefaultConfig is a whole configuration.
type Config struct {
	TopicRoot string    `yaml:"topic_root"` // "muster/v1" when empty
	Listeners Listeners `yaml:"listeners"`
	// Anonymous lets anybody in under the name claimed, without a password. It
	// is for development: every listener must be bound to a loopback address.
	Anonymous bool   `yaml:"anonymous"`
	UsersFile string `yaml:"users_file"` // required unless Anonymous, refused with it
	// AllowPlaintext lets a listener without TLS serve other machines, which is
	// refused otherwise: passwords and messages can be read on the way.
	AllowPlaintext bool   `yaml:"allow_plaintext"`
	Limits         Limits `yaml:"limits"`
}

// Listeners are the ways in. One with an empty address is off.
type Listeners struct {
	TCP ListenerConfig `yaml:"tcp"`
	TLS ListenerConfig `yaml:"tls"` // needs cert_file and key_file
	WS  ListenerConfig `yaml:"ws"`  // secure when it has cert_file and key_file
}

// ListenerConfig is one way in.
type ListenerConfig struct {
	Address  string `yaml:"address"` // host:port
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// MinTLS is "1.3" (also when empty) or "1.2".
	MinTLS string `yaml:"min_tls"`
	// ClientCAFile holds the authorities, PEM, whose certificates are believed.
	// Set on any listener, a terminal gets in by its certificate alone, on
	// whichever listener; users may come without one.
	ClientCAFile string `yaml:"client_ca_file"`
	// CRLFile lists the certificates that are revoked: an X.509 list in PEM or
	// DER, signed by one of those authorities. It is read again when it changes.
	CRLFile string `yaml:"crl_file"`
}

// Limits protect the broker from its clients. Zero means the default named.
type Limits struct {
	// MaxPayloadBytes bounds one message: 1 MiB. It lies above what
	// headquarters takes in, so that an oversize request still gets its reply.
	MaxPayloadBytes int `yaml:"max_payload_bytes"`
	// ConnectDeadline bounds accept to CONNECT, handshakes included: 10 s.
	ConnectDeadline time.Duration `yaml:"connect_deadline"`
	// WriteDeadline bounds how long a peer may take for 16 KiB: 10 s.
	WriteDeadline time.Duration `yaml:"write_deadline"`
	// WriteBufferBytes may wait to leave before a client's queue waits: 256 KiB.
	WriteBufferBytes int `yaml:"write_buffer_bytes"`
	// WritesPending bounds the messages that wait for one client, beside a burst of
	// 16,384: 256.
	WritesPending int `yaml:"writes_pending"`
	// MaxConnections over all listeners: 20,000.
	MaxConnections int `yaml:"max_connections"`
	// MaxConnectionsPerAddress, loopback apart: 512.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address"`
	// MinKeepalive is the shortest silence that ends a connection, 15 s, or
	// MaxKeepalive when that is shorter. A client of version 5 is told it.
	MinKeepalive time.Duration `yaml:"min_keepalive"`
	// MaxKeepalive is the longest silence a client may announce: 5 min. A client
	// of version 5 is told it; an older one with none at all is left to TCP.
	MaxKeepalive time.Duration `yaml:"max_keepalive"`
	// SessionExpiry bounds how long a session outlives its connection: 24 h. A
	// terminal under managed presence has none.
	SessionExpiry time.Duration `yaml:"session_expiry"`
	// FlappingConnects is how often one client id of one identity may connect
	// within FlappingWindow, 15 within a minute, before it is banned for
	// FlappingBan, 5 min: two agents with one identity push each other out.
	FlappingConnects int           `yaml:"flapping_connects"`
	FlappingWindow   time.Duration `yaml:"flapping_window"`
	FlappingBan      time.Duration `yaml:"flapping_ban"`
}

// DefaultConfig listens on 127.0.0.1:1883 and has every limit filled in but
// MinKeepalive, which follows MaxKeepalive. It names no users, so New refuses it until it
// has a users file or is anonymous.
func DefaultConfig() Config {
	c := Config{Listeners: Listeners{TCP: ListenerConfig{Address: "127.0.0.1:1883"}}}
	c = c.withDefaults()
	c.Limits.MinKeepalive = 0
	return c
}

// Filled is the configuration with its defaults in the place of zero values.
func (c Config) Filled() Config {
	c = c.withDefaults()
	for _, l := range []*ListenerConfig{&c.Listeners.TCP, &c.Listeners.TLS, &c.Listeners.WS} {
		fill(&l.MinTLS, "1.3")
	}
	return c
}

func (c Config) withDefaults() Config {
	if c.TopicRoot == "" {
		c.TopicRoot = protocol.DefaultRoot
	}
	return c.withDefaultLimits()
}

func (c Config) withDefaultLimits() Config {
	l := &c.Limits
	fill(&l.MaxPayloadBytes, 1<<20)
	fill(&l.ConnectDeadline, 10*time.Second)
	fill(&l.WriteDeadline, 10*time.Second)
	fill(&l.WriteBufferBytes, 256<<10)
	fill(&l.WritesPending, 256)
	fill(&l.MaxConnections, 20_000)
	fill(&l.MaxConnectionsPerAddress, 512)
	fill(&l.MaxKeepalive, 5*time.Minute)
	fill(&l.MinKeepalive, min(15*time.Second, l.MaxKeepalive))
	fill(&l.SessionExpiry, 24*time.Hour)
	fill(&l.FlappingConnects, 15)
	fill(&l.FlappingWindow, time.Minute)
	fill(&l.FlappingBan, 5*time.Minute)
	return c
}

// Files returns where the names of files stand, for a program that resolves
// them against the folder of its configuration file. Empty ones are not used.
func (c *Config) Files() []*string {
	tls, ws := &c.Listeners.TLS, &c.Listeners.WS
	return []*string{
		&c.UsersFile,
		&tls.CertFile, &tls.KeyFile, &tls.ClientCAFile, &tls.CRLFile,
		&ws.CertFile, &ws.KeyFile, &ws.ClientCAFile, &ws.CRLFile,
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// FieldError says which key of a configuration is wrong and why. Key is its
// path, such as "limits.max_keepalive".
type FieldError struct {
	Key   string
	Fault error
}

func (e *FieldError) Error() string { return e.Key + ": " + e.Fault.Error() }

func (e *FieldError) Unwrap() error { return e.Fault }

func fault(key, format string, args ...any) error {
	return &FieldError{key, fmt.Errorf(format, args...)}
}

// Validate returns the first *FieldError of the configuration, or nil. It reads
// no file. given says which keys somebody has written: their zero is a value, and
// no word for the default. nil: none.
func (c Config) Validate(given func(key string) bool) error {
	if given == nil {
		given = func(string) bool { return false }
	}
	written := c.Limits
	if c.TopicRoot == "" && !given("topic_root") {
		c.TopicRoot = protocol.DefaultRoot
	}
	c = c.withDefaultLimits()
	if !protocol.ValidRoot(c.TopicRoot) {
		return fault("topic_root", "%q is not a topic root such as %q", c.TopicRoot, protocol.DefaultRoot)
	}
	if err := c.Listeners.validate(c.Anonymous, c.AllowPlaintext); err != nil {
		return err
	}
	switch {
	case c.Anonymous && c.UsersFile != "":
		return fault("users_file", "cannot be combined with anonymous: true")
	case !c.Anonymous && c.UsersFile == "":
		return fault("users_file", "is missing, and so nobody could log in: name one, such as users.yaml of configs")
	}
	return c.Limits.validate(written, given)
}

func (l Listeners) validate(anonymous, plaintext bool) error {
	on := []string{}
	for _, name := range ListenerNames() {
		one := l.Named(name)
		key := "listeners." + name
		if _, err := credential.TLSVersion(one.MinTLS); err != nil {
			return &FieldError{key + ".min_tls", err}
		}
		if one.Address == "" {
			continue
		}
		host, _, err := settings.Address(one.Address)
		if err != nil {
			return &FieldError{key + ".address", err}
		}
		for _, other := range on {
			if settings.Collide(one.Address, l.Named(other).Address) {
				return fault(key+".address", "%q is where listeners.%s listens: choose another port", one.Address, other)
			}
		}
		on = append(on, name)
		if anonymous && !settings.Loopback(host) {
			return fault(key+".address", "%q is not a loopback address, which anonymous: true requires", one.Address)
		}
		if err := one.validateTLS(name, key); err != nil {
			return err
		}
		if one.open() && !plaintext {
			return fault(key+".address", "%q is not a loopback address, and without TLS passwords and messages "+
				"can be read on the way: use listeners.tls, bind it to 127.0.0.1, or set allow_plaintext: true", one.Address)
		}
	}
	if len(on) == 0 {
		return fault("listeners", "none has an address, and so nobody could connect: write listeners.tls.address, or tcp or ws")
	}
	return nil
}

// open reports whether a listener serves other machines without TLS.
func (c ListenerConfig) open() bool {
	host, _, err := settings.Address(c.Address)
	return err == nil && c.CertFile == "" && !settings.Loopback(host)
}

// checksCertificates reports whether any listener does.
func (l Listeners) checksCertificates() bool {
	for _, name := range ListenerNames() {
		if one := l.Named(name); one.Address != "" && one.ClientCAFile != "" {
			return true
		}
	}
	return false
}

// ListenerNames are those of the listeners, in the order of their start.
func ListenerNames() []string { return []string{"tcp", "tls", "ws"} }

// Named is one of ListenerNames.
func (l Listeners) Named(name string) ListenerConfig {
	return map[string]ListenerConfig{"tcp": l.TCP, "tls": l.TLS, "ws": l.WS}[name]
}

func (c ListenerConfig) validateTLS(name, key string) error {
	has := c.CertFile != "" || c.KeyFile != ""
	switch {
	case c.CertFile == "" && c.ClientCAFile != "":
		return fault(key+".client_ca_file", "a listener without cert_file and key_file checks no certificates: use listeners.tls")
	case c.CRLFile != "" && c.ClientCAFile == "":
		return fault(key+".crl_file", "needs client_ca_file, whose authority signs the list")
	case name == "tcp" && has:
		return fault(key+".cert_file", "a plain listener has no certificate: use listeners.tls")
	case (name == "tls" || has) && c.CertFile == "":
		return fault(key+".cert_file", "is missing")
	case (name == "tls" || has) && c.KeyFile == "":
		return fault(key+".key_file", "is missing")
	}
	return nil
}

// bound is the range of a limit. written is 0 where nobody gave it, and its value is
// then the default.
type bound[T cmp.Ordered] struct {
	key                       string
	value, written, low, high T
}

func (b bound[T]) check(given func(key string) bool) error {
	key, value := "limits."+b.key, b.value
	var zero T
	if b.written == zero && given(key) {
		value = zero
	}
	if value < b.low || value > b.high {
		return fault(key, "%v is not between %v and %v", value, b.low, b.high)
	}
	return nil
}

func (l Limits) validate(written Limits, given func(key string) bool) error {
	var faults []error
	for _, b := range []bound[int]{
		{"max_payload_bytes", l.MaxPayloadBytes, written.MaxPayloadBytes, 1 << 10, 64 << 20},
		{"write_buffer_bytes", l.WriteBufferBytes, written.WriteBufferBytes, 4 << 10, 64 << 20},
		{"writes_pending", l.WritesPending, written.WritesPending, 16, 65_536},
		{"max_connections", l.MaxConnections, written.MaxConnections, 1, 1_000_000},
		{"max_connections_per_address", l.MaxConnectionsPerAddress, written.MaxConnectionsPerAddress, 1, 1_000_000},
		{"flapping_connects", l.FlappingConnects, written.FlappingConnects, 1, 100_000},
	} {
		faults = append(faults, b.check(given))
	}
	for _, b := range []bound[time.Duration]{
		{"connect_deadline", l.ConnectDeadline, written.ConnectDeadline, 100 * time.Millisecond, time.Minute},
		{"write_deadline", l.WriteDeadline, written.WriteDeadline, 100 * time.Millisecond, 5 * time.Minute},
		{"max_keepalive", l.MaxKeepalive, written.MaxKeepalive, 5 * time.Second, 12 * time.Hour},
		{"min_keepalive", l.MinKeepalive, written.MinKeepalive, time.Second, l.MaxKeepalive},
		{"session_expiry", l.SessionExpiry, written.SessionExpiry, time.Second, 7 * 24 * time.Hour},
		{"flapping_window", l.FlappingWindow, written.FlappingWindow, time.Second, time.Hour},
		{"flapping_ban", l.FlappingBan, written.FlappingBan, time.Second, 24 * time.Hour},
	} {
		faults = append(faults, b.check(given))
	}
	var first *FieldError
	if errors.As(errors.Join(faults...), &first) {
		return first
	}
	return nil
}
