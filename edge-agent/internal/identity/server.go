package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Roots holds headquarters' authority alone.
func (i *Identity) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(i.authority)
	return roots
}

// Prove adds to a TLS configuration how the terminal proves itself, with the
// newest certificate at each handshake, and that the server must be one for which
// the authority stands, unless other roots are named. Host is that of the address
// that is dialled. The time is the configuration's, if it has one, but no earlier
// than what is proven.
func (i *Identity) Prove(config *tls.Config, host string) {
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		certificate := i.Certificate()
		return &certificate, nil
	}
	roots, clock := config.RootCAs, config.Time
	if clock == nil {
		clock = time.Now
	}
	config.InsecureSkipVerify = true // VerifyConnection does it, at a time that a dead clock cannot spoil
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return i.checkServer(state.PeerCertificates, roots, host, clock())
	}
}

// checkServer asks whether the server is who it says, by the roots or, without
// any, by headquarters' authority. That authority dates nothing ahead: where its
// certificate begins, the time has come, whatever the clock shows.
func (i *Identity) checkServer(chain []*x509.Certificate, roots *x509.CertPool, host string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server showed no certificate")
	}
	options := x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: later(now, i.proven())}
	for _, cert := range chain[1:] {
		options.Intermediates.AddCert(cert)
	}
	if roots == nil {
		options.Roots, options.CurrentTime = i.Roots(), later(options.CurrentTime, chain[0].NotBefore)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return fmt.Errorf("the server's certificate cannot be trusted at %s: %w%s", options.CurrentTime.Format(time.RFC3339), err,
			adviceFor(err, chain[0], options.CurrentTime.Equal(now)))
	}
	return nil
}

// adviceFor says what to do about a certificate whose time it is not, by this
// terminal's clock or by what is proven.
func adviceFor(err error, cert *x509.Certificate, byClock bool) string {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		return ""
	}
	valid := fmt.Sprintf("; it is valid from %s to %s", cert.NotBefore.Format(time.RFC3339), cert.NotAfter.Format(time.RFC3339))
	if !byClock {
		return valid + ", and headquarters has signed later than that: give the server its new certificate"
	}
	return valid + ", and the time is what this terminal's clock shows: set the clock, and the connection comes back by itself; if the clock is right, give the server a new certificate"
}

// proven is the newest time that the authority signed for this terminal.
func (i *Identity) proven() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return later(later(i.pair.certificate.Leaf.NotBefore, i.document.At.Time), i.authority.NotBefore)
}

// Behind is how far a clock is behind the newest time that the authority signed;
// 0 when it is not. The agent works on: headquarters tells it the time.
func (i *Identity) Behind(now time.Time) time.Duration {
	return max(0, i.proven().Sub(now))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
