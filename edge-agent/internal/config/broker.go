package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"muster/edge-agent/internal/enrol"
	"muster/edge-agent/internal/link"
	"muster/internal/settings"
)

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
	case broker.Scheme != "mqtts" && broker.Scheme != "wss" && !isLoopback(broker.Hostname()):
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

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// BrokerURL returns the broker's address.
func (c *Config) BrokerURL() (*url.URL, error) {
	u, err := url.Parse(c.Broker.URL)
	if err != nil {
		return nil, fmt.Errorf("must be a URL such as mqtts://hq.example:8883: %w", err)
	}
	if _, known := link.Schemes()[u.Scheme]; !known || u.Hostname() == "" {
		return nil, fmt.Errorf("must be a URL such as mqtts://hq.example:8883 with scheme mqtt, mqtts, ws or wss, not %q", u.Redacted())
	}
	if u.User != nil {
		return nil, fmt.Errorf("must hold no password: use user and password_file")
	}
	return u, nil
}

// tlsVersions are the values of min_tls.
var tlsVersions = map[string]uint16{"1.3": tls.VersionTLS13, "1.2": tls.VersionTLS12}

// TLS returns how to check the broker's certificate.
func (c *Config) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tlsVersions[c.Broker.MinTLS]}
	if c.Broker.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.Broker.CAFile)
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

func (c *Config) readPassword(file *settings.File) error {
	if c.Broker.PasswordFile == "" {
		return nil
	}
	data, err := os.ReadFile(c.Broker.PasswordFile)
	if err != nil {
		return file.Errorf("$.broker.password_file", "cannot be read: %v", err)
	}
	c.Broker.Password = strings.TrimRight(strings.TrimPrefix(string(data), "\ufeff"), "\r\n")
	if c.Broker.Password == "" {
		return file.Errorf("$.broker.password_file", "%s is empty", c.Broker.PasswordFile)
	}
	return nil
}
