package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"muster/internal/trust"
)

// CertifyUser makes a key and a certificate, PEM both, with which a user logs in until
// the given time. A lifetime of 0 means DefaultLifetime.
func (id *Identity) CertifyUser(user string, lifetime time.Duration, now time.Time) (cert, key []byte, until time.Time, err error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, until, fmt.Errorf("cannot make a key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return nil, nil, until, fmt.Errorf("cannot make a certificate request: %w", err)
	}
	request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
	cert, draft, err := id.Issue(request, trust.Holder{User: user}, lifetime, now)
	if err != nil {
		return nil, nil, until, err
	}
	key, err = trust.EncodeKey(private)
	return cert, key, draft.NotAfter, err
}
