package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/edge-agent/internal/enrol"
	"muster/internal/files"
	"muster/internal/settings"
)

// maxUser bounds a user name, in bytes: far beyond what a broker's users file takes.
const maxUser = 256

func (c *Config) checkBroker(file *settings.File) error {
	broker, err := c.BrokerURL()
	if err != nil {
		return file.Errorf("$.broker.url", "%w", err)
	}
	if overTLS := broker.Scheme == "mqtts" || broker.Scheme == "wss"; !overTLS && !c.Broker.AllowPlaintext && !settings.Loopback(broker.Hostname()) {
		return file.Errorf("$.broker.url", "%s carries password and answers in clear: write mqtts:// or wss://, or say broker.allow_plaintext: true", broker.Redacted())
	}
	if user := c.Broker.User; len(user) > maxUser || !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl) {
		return file.Errorf("$.broker.user", "must be at most %d bytes of text without control characters", maxUser)
	}
	if c.Broker.Password != "" {
		if text, err := files.Secret([]byte(c.Broker.Password)); err != nil || text != c.Broker.Password {
			return file.Errorf("$.broker.password", "must be one line of at most %d bytes without control characters", files.MaxSecret)
		}
	}
	if _, err := c.TLS(); err != nil {
		return file.Errorf("$.broker.ca_file", "%w", err)
	}
	return nil
}

// checkIdentity keeps what is signed off open lines: others could read along.
func (c *Config) checkIdentity(file *settings.File) error {
	if err := c.checkEnrolment(file); err != nil || c.Identity.Folder == "" {
		return err
	}
	const instead = "must be empty with identity.folder: the certificate says who the terminal is"
	broker, err := c.BrokerURL()
	switch {
	case err != nil:
		return err
	case c.Broker.Password != "":
		return file.Errorf("$.broker.password", instead)
	case c.Broker.PasswordFile != "":
		return file.Errorf("$.broker.password_file", instead)
	case broker.Scheme != "mqtts" && broker.Scheme != "wss" && !settings.Loopback(broker.Hostname()):
		return file.Errorf("$.broker.url", "must begin with mqtts:// or wss:// with identity.folder, unless the broker is on this machine, not %q", c.Broker.URL)
	}
	return nil
}

// checkEnrolment is about a terminal that enrols by itself.
func (c *Config) checkEnrolment(file *settings.File) error {
	id := c.Identity
	switch {
	case id.Headquarters == "" && id.TokenFile == "":
		return nil
	case id.TokenFile == "":
		return file.Errorf("$.identity.headquarters", "needs identity.token_file: the file with the token of dispatcher enroll")
	case id.Headquarters == "":
		return file.Errorf("$.identity.token_file", "needs identity.headquarters: where to enrol, such as https://hq.example:8443")
	case id.Folder == "":
		return file.Errorf("$.identity.token_file", "needs identity.folder: where to put what the enrolment brings")
	}
	if _, err := enrol.ParseURL(id.Headquarters); err != nil {
		return file.Errorf("$.identity.headquarters", "%v", err)
	}
	return nil
}

// BrokerURL returns the broker's address.
func (c *Config) BrokerURL() (*url.URL, error) {
	return settings.URL(c.Broker.URL, "mqtt", "ws", "wss", "mqtts")
}

// tlsVersions are the values of min_tls.
var tlsVersions = map[string]uint16{"1.3": tls.VersionTLS13, "1.2": tls.VersionTLS12}

// TLS returns how to check the broker's certificate.
func (c *Config) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tlsVersions[c.Broker.MinTLS]}
	if c.Broker.CAFile == "" {
		return config, nil
	}
	pem, err := files.Read(c.Broker.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", c.Broker.CAFile)
	}
	return config, nil
}

// User is the name to log in with.
func (c *Config) User() string {
	if c.Broker.User != "" {
		return c.Broker.User
	}
	return c.Store + "/" + c.Terminal
}

// Password is what to log in with, "" for none.
func (c *Config) Password() string {
	if c.Broker.PasswordFile != "" {
		return c.password
	}
	return c.Broker.Password
}

func (c *Config) readPassword(file *settings.File) error {
	if c.Broker.PasswordFile == "" {
		return nil
	}
	password, err := files.ReadSecret(c.Broker.PasswordFile)
	if err != nil {
		return file.Errorf("$.broker.password_file", "cannot be used: %w", err)
	}
	c.password = password
	return nil
}
