// Package credential is what a listener with TLS shows to its clients and whom of
// them it believes: its certificate and key, the authorities, and the
// certificates that are revoked. Files that change are read again.
//
// It ends no connection and writes no file, and a file that turned bad must never
// take away what was good.
package credential

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Files name what a listener's credentials are read from, each by the key that
// names it in a configuration. All but Cert and Key may be empty; a listener
// without Cert is a plain one.
type Files struct {
	Cert, Key string
	// MinTLS is what TLSVersion takes.
	MinTLS string
	// ClientCA holds the authorities, PEM, whose certificates are believed.
	ClientCA string
	// CRL lists the revoked ones: PEM or DER, signed by one of the authorities.
	CRL string
}

// Set is the credentials of one listener. Nil is that of a plain one. Refresh is
// for one goroutine at a time; all else is safe for concurrent use.
type Set struct {
	minTLS      uint16
	authorities []*x509.Certificate
	pair        atomic.Pointer[tls.Certificate]
	revoked     atomic.Pointer[revocations]
	pairFiles   watched
	list        watched // no files: nobody is revoked
}

// FileError says which file is bad, by its key in a configuration, such as
// cert_file, and why.
type FileError struct {
	Key   string
	Fault error
}

func (e *FileError) Error() string { return e.Key + ": " + e.Fault.Error() }

func (e *FileError) Unwrap() error { return e.Fault }

// Load reads a listener's files; nil for one without TLS. A file that is bad is a
// *FileError.
func Load(from Files) (*Set, error) {
	if from.Cert == "" {
		return nil, nil
	}
	lowest, err := TLSVersion(from.MinTLS)
	if err != nil {
		return nil, &FileError{"min_tls", err}
	}
	c := &Set{minTLS: lowest}
	c.pairFiles = watched{files: []string{from.Cert, from.Key}, use: c.usePair}
	if _, err := c.pairFiles.look(); err != nil {
		return nil, &FileError{"cert_file", fmt.Errorf("cannot use %s with the key %s: %w", from.Cert, from.Key, err)}
	}
	if from.ClientCA != "" {
		if c.authorities, err = readAuthorities(from.ClientCA); err != nil {
			return nil, &FileError{"client_ca_file", err}
		}
	}
	if from.CRL != "" {
		c.list = watched{files: []string{from.CRL}, use: c.useList}
		if _, err := c.list.look(); err != nil {
			return nil, &FileError{"crl_file", fmt.Errorf("cannot use %s: %w", from.CRL, err)}
		}
	}
	return c, nil
}

// TLS is the configuration of the listener, nil for a plain one.
func (c *Set) TLS() *tls.Config {
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

// Fault says why a client's certificate is not, or no longer, good; "" when it
// is. The handshake has checked who signed it.
func (c *Set) Fault(cert *x509.Certificate, now time.Time) string {
	if c == nil || cert == nil {
		return ""
	}
	if revoked := c.revoked.Load(); revoked != nil && revoked.serials[serialOf(cert.RawIssuer, cert.SerialNumber)] {
		return "the certificate is revoked"
	}
	if now.After(cert.NotAfter) {
		return "the certificate has expired"
	}
	return ""
}

// Ends says why clients whose clock is right refuse the certificate at now; "" when
// they do not.
func (c *Set) Ends(now time.Time) string {
	leaf := c.pair.Load().Leaf
	switch {
	case now.After(leaf.NotAfter):
		return "the certificate ended at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(leaf.NotBefore):
		return "the certificate is not good before " + leaf.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

// Refresh reads the files again. A file that turned bad is told of once.
func (c *Set) Refresh(log *slog.Logger) {
	if changed, err := c.pairFiles.look(); err != nil {
		log.Error("cannot use the new certificate, the old one stays", "error", err, "files", c.pairFiles.files)
	} else if changed {
		log.Info("the certificate was renewed", "files", c.pairFiles.files)
	}
	if changed, err := c.list.look(); err != nil {
		log.Error("cannot use the new list of revoked certificates, the last good one stays", "error", err, "files", c.list.files)
	} else if changed {
		log.Info("the list of revoked certificates was read", "revoked", len(c.revoked.Load().serials), "files", c.list.files)
	}
}

func (c *Set) usePair(contents [][]byte) error {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	c.pair.Store(&pair)
	return nil
}

func (c *Set) useList(contents [][]byte) error {
	revoked, err := readRevoked(contents[0], c.authorities)
	if err == nil {
		err = revoked.follows(c.revoked.Load())
	}
	if err != nil {
		return err
	}
	c.revoked.Store(revoked)
	return nil
}

// TLSVersion is the version of TLS that a text names: "1.2" or, also when it is
// empty, "1.3".
func TLSVersion(text string) (uint16, error) {
	switch text {
	case "", "1.3":
		return tls.VersionTLS13, nil
	case "1.2":
		return tls.VersionTLS12, nil
	}
	return 0, fmt.Errorf("%q is neither 1.2 nor 1.3", text)
}
