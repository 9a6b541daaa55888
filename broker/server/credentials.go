package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// credentials are what a listener with TLS shows and whom it believes. The
// certificate and the list of revoked ones are read again when their files
// change; a file that is bad then changes nothing.
type credentials struct {
	minTLS      uint16
	authorities []*x509.Certificate
	pair        atomic.Pointer[tls.Certificate]
	revoked     atomic.Pointer[map[string]bool] // by serialOf
	pairFiles   watched
	list        watched // no files: nobody is revoked
}

// loadCredentials reads a listener's files; nil for one without TLS.
func loadCredentials(lc ListenerConfig) (*credentials, error) {
	if lc.CertFile == "" {
		return nil, nil
	}
	lowest, err := tlsVersion(lc.MinTLS)
	if err != nil {
		return nil, err
	}
	c := &credentials{minTLS: lowest}
	c.pairFiles = watched{files: []string{lc.CertFile, lc.KeyFile}, use: c.usePair}
	if _, err := c.pairFiles.look(); err != nil {
		return nil, fmt.Errorf("cannot load the certificate: %w", err)
	}
	if lc.ClientCAFile != "" {
		if c.authorities, err = readAuthorities(lc.ClientCAFile); err != nil {
			return nil, fmt.Errorf("client_ca_file: %w", err)
		}
	}
	if lc.CRLFile != "" {
		c.list = watched{files: []string{lc.CRLFile}, use: c.useList}
		if _, err := c.list.look(); err != nil {
			return nil, fmt.Errorf("crl_file: cannot use %s: %w", lc.CRLFile, err)
		}
	}
	return c, nil
}

// tls is the configuration of the listener, nil for a plain one.
func (c *credentials) tls() *tls.Config {
	if c == nil {
		return nil
	}
	config := &tls.Config{
		MinVersion:     c.minTLS,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
	if len(c.authorities) > 0 {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		for _, authority := range c.authorities {
			config.ClientCAs.AddCert(authority)
		}
	}
	return config
}

// fault says why a client's certificate is not, or no longer, good; "" when it
// is. The handshake has checked who signed it.
func (c *credentials) fault(cert *x509.Certificate, now time.Time) string {
	if c == nil || cert == nil {
		return ""
	}
	if revoked := c.revoked.Load(); revoked != nil && (*revoked)[serialOf(cert.RawIssuer, cert.SerialNumber)] {
		return "the certificate is revoked"
	}
	if now.After(cert.NotAfter) {
		return "the certificate has expired"
	}
	return ""
}

// refresh reads the files again. A file that turned bad is told of once.
func (c *credentials) refresh(log *slog.Logger) {
	if changed, err := c.pairFiles.look(); err != nil {
		log.Error("cannot use the new certificate, the old one stays", "error", err, "files", c.pairFiles.files)
	} else if changed {
		log.Info("the certificate was renewed", "files", c.pairFiles.files)
	}
	if changed, err := c.list.look(); err != nil {
		log.Error("cannot use the new list of revoked certificates, the last good one stays", "error", err, "files", c.list.files)
	} else if changed {
		log.Info("the list of revoked certificates was read", "revoked", len(*c.revoked.Load()), "files", c.list.files)
	}
}

func (c *credentials) usePair(contents [][]byte) error {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	c.pair.Store(&pair)
	return nil
}

func (c *credentials) useList(contents [][]byte) error {
	revoked, err := readRevoked(contents[0], c.authorities)
	if err != nil {
		return err
	}
	c.revoked.Store(&revoked)
	return nil
}
