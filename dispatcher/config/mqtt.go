package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"muster/dispatcher/internal/transport"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/settings"
	"muster/internal/trust"
)

func (c Config) checkMQTT(file *settings.File) error {
	m := c.MQTT
	u, err := settings.URL(m.URL, "mqtt", "ws", "wss", "mqtts")
	if err != nil {
		return file.Errorf("$.mqtt.url", "%w", err)
	}
	if (u.Scheme == "mqtt" || u.Scheme == "ws") && !m.AllowPlaintext && !settings.Loopback(u.Hostname()) {
		return file.Errorf("$.mqtt.url", "%s carries password and payloads in clear; write mqtts:// or wss://, or say mqtt.allow_plaintext: true", u.Redacted())
	}
	if !protocol.ValidID(m.User) {
		return file.Errorf("$.mqtt.user", "%q is no user name; write 1 to 63 of A-Z a-z 0-9 . _ -", m.User)
	}
	if _, err := m.password(); err != nil {
		return file.Errorf("$.mqtt.password_file", "%v", err)
	}
	if _, err := m.authorities(); err != nil {
		return file.Errorf("$.mqtt.ca_file", "%v", err)
	}
	switch {
	case m.CertFile == "" && m.KeyFile == "":
		return nil
	case m.CertFile == "":
		return file.Errorf("$.mqtt.key_file", "needs its certificate beside it: write cert_file")
	case m.KeyFile == "":
		return file.Errorf("$.mqtt.cert_file", "needs its private key beside it: write key_file")
	case u.Scheme != "mqtts" && u.Scheme != "wss":
		return file.Errorf("$.mqtt.cert_file", "needs TLS: mqtt.url must begin with mqtts:// or wss://, not %q", u.Redacted())
	}
	if _, err := m.certificate(); err != nil {
		return file.Errorf("$.mqtt.cert_file", "%v", err)
	}
	return nil
}

// Login reads how headquarters reaches and logs in at its broker.
func (m MQTT) Login() (transport.MQTTConfig, error) {
	address, err := url.Parse(m.URL)
	if err != nil {
		return transport.MQTTConfig{}, fmt.Errorf("cannot read the broker's address: %w", err)
	}
	password, err := m.password()
	if err != nil {
		return transport.MQTTConfig{}, err
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if secure.RootCAs, err = m.authorities(); err != nil {
		return transport.MQTTConfig{}, err
	}
	if m.CertFile != "" {
		if _, err := m.certificate(); err != nil {
			return transport.MQTTConfig{}, err
		}
		// Read with every connection: a certificate that was replaced on the
		// disk needs no restart.
		secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.certificate() }
	}
	return transport.MQTTConfig{URL: address, User: m.User, Password: password, TLS: secure}, nil
}

// password reads the password file, or is "" when none is named.
func (m MQTT) password() (string, error) {
	if m.PasswordFile == "" {
		return "", nil
	}
	password, err := files.ReadSecret(m.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("cannot read the broker password: %w", err)
	}
	return password, nil
}

// authorities returns the certificates to trust, or nil for the system's.
func (m MQTT) authorities() (*x509.CertPool, error) {
	if m.CAFile == "" {
		return nil, nil
	}
	pem, err := files.Read(m.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the broker's certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cannot use %s: it holds no PEM certificate", m.CAFile)
	}
	return pool, nil
}

// certificate reads what headquarters logs in with.
func (m MQTT) certificate() (*tls.Certificate, error) {
	if err := errors.Join(files.CheckPlain(m.KeyFile), files.CheckPlain(m.CertFile)); err != nil {
		return nil, err // it is read with every connection
	}
	key, err := trust.ReadPrivate(m.KeyFile)
	if err != nil {
		return nil, err
	}
	cert, err := files.Read(m.CertFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s with %s: %w", m.CertFile, m.KeyFile, err)
	}
	return &own, nil
}
