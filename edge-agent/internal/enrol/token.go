package enrol

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// tokenSecretBytes is the length of a token's secret.
const tokenSecretBytes = 32

// authorityHash reads the pin of a token mt1.<secret>.<hash>: the SHA-256 of the
// authority's SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7).
func authorityHash(token string) ([sha256.Size]byte, error) {
	var pin [sha256.Size]byte
	parts := strings.Split(token, ".")
	bad := errors.New("this is no token of headquarters (mt1. and two more parts): copy the whole line that dispatcher enroll printed")
	if len(parts) != 3 || parts[0] != "mt1" {
		return pin, bad
	}
	secret, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || len(secret) != tokenSecretBytes {
		return pin, bad
	}
	sum, err := hex.DecodeString(parts[2])
	if err != nil || copy(pin[:], sum) != len(pin) || len(sum) != len(pin) {
		return pin, bad
	}
	return pin, nil
}

// pinned returns how to connect to a headquarters of which only the hash of its
// authority's key is known: the chain that it serves must hold that authority,
// which must stand behind a certificate for this very host that has not ended by
// now. So nobody is trusted on first use.
func pinned(host string, pin [sha256.Size]byte, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection does it, against the pin
		VerifyConnection: func(state tls.ConnectionState) error {
			return checkChain(state.PeerCertificates, host, pin, now())
		},
	}
}

// errOtherAuthority says that somebody else answered than who made the token.
var errOtherAuthority = errors.New("this is not the headquarters that made the token: its authority is another one; check the address, or ask for a new token")

func checkChain(chain []*x509.Certificate, host string, pin [sha256.Size]byte, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("headquarters showed no certificate")
	}
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	found := false
	// The authority dates nothing ahead, see identity.Prove.
	now = later(now, chain[0].NotBefore)
	for _, cert := range chain[1:] {
		if isPinned(cert, pin) {
			roots.AddCert(cert)
			now, found = later(now, cert.NotBefore), true
			continue
		}
		others.AddCert(cert)
	}
	if !found {
		return errOtherAuthority
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: others, CurrentTime: now})
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("headquarters' certificate ended on %s, and this terminal's clock shows %s; check the clock: %w",
			chain[0].NotAfter.Format(time.RFC3339), now.Format(time.RFC3339), err)
	}
	if err != nil {
		return fmt.Errorf("headquarters' certificate cannot be trusted: %w", err)
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func isPinned(cert *x509.Certificate, pin [sha256.Size]byte) bool {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return cert.IsCA && subtle.ConstantTimeCompare(sum[:], pin[:]) == 1
}
