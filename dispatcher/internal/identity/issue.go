package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"muster/internal/trust"
)

// DefaultLifetime is that of a terminal's or user's certificate.
const DefaultLifetime = 90 * 24 * time.Hour

// ErrBadRequest says that a certificate signing request is not one that a
// certificate can be made from; the text says why.
var ErrBadRequest = errors.New("the certificate request cannot be used")

// Draft is a certificate that has everything but its holder and signature: what
// must be recorded before it is handed out.
type Draft struct {
	KeyID               string // of the holder's key, see trust.KeyID
	PublicKey           ed25519.PublicKey
	Serial              string // 32 hex digits, lower case
	NotBefore, NotAfter time.Time

	id     *Identity
	serial *big.Int
}

// Draft reads a PKCS #10 request in PEM. The key must be Ed25519 and must have
// signed the request; the names that it asks for are not looked at. A lifetime
// of 0 means DefaultLifetime; no certificate outlives the authority. It begins
// two days, at most a lifetime, before now. It fails with ErrBadRequest. The authority's key is not read.
func (id *Identity) Draft(request []byte, lifetime time.Duration, now time.Time) (*Draft, error) {
	public, err := requested(request)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("cannot draw a serial number: %w", err)
	}
	if lifetime <= 0 {
		lifetime = DefaultLifetime
	}
	return &Draft{
		KeyID: trust.KeyID(public), PublicKey: public, Serial: serial.Text(16),
		NotBefore: now.Add(-min(predate, lifetime)).UTC().Truncate(time.Second),
		NotAfter:  earlier(now.Add(lifetime), id.authority.NotAfter).UTC().Truncate(time.Second),
		id:        id, serial: serial,
	}, nil
}

func requested(request []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("%w: it is no PEM certificate request (PKCS #10)", ErrBadRequest)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be read", ErrBadRequest)
	}
	public, ok := csr.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: its key is %s, not Ed25519", ErrBadRequest, csr.PublicKeyAlgorithm)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: its signature is not by its key", ErrBadRequest)
	}
	return public, nil
}

// Sign makes the certificate of the holder, for a client, as PEM.
func (d *Draft) Sign(holder trust.Holder) ([]byte, error) {
	what := "Muster terminal"
	if holder.User != "" {
		what = "Muster user"
	}
	template := &x509.Certificate{
		SerialNumber:          d.serial,
		Subject:               pkix.Name{CommonName: what},
		NotBefore:             d.NotBefore,
		NotAfter:              d.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	template.URIs = append(template.URIs, holder.URI())
	der, err := d.id.certify(template, d.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("cannot sign the certificate of %s: %w", holder.URI(), err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot sign the certificate of %s: %w", holder.URI(), err)
	}
	if named, err := trust.HolderOf(cert); err != nil || named != holder {
		return nil, fmt.Errorf("cannot sign a certificate of %s: it would not name its holder alone", holder.URI())
	}
	return trust.EncodeCertificate(der), nil
}

// Issue is Draft and Sign in one, for a holder that is known and allowed.
func (id *Identity) Issue(request []byte, holder trust.Holder, lifetime time.Duration, now time.Time) ([]byte, *Draft, error) {
	draft, err := id.Draft(request, lifetime, now)
	if err != nil {
		return nil, nil, err
	}
	text, err := draft.Sign(holder)
	return text, draft, err
}

// NewToken draws a secret with which one terminal may enrol once, and names the
// authority that the terminal will find: mt1.<32 bytes, base64url>.<AuthorityHash>.
func (id *Identity) NewToken() (string, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("cannot draw a token: %w", err)
	}
	return "mt1." + base64.RawURLEncoding.EncodeToString(secret) + "." + id.AuthorityHash(), nil
}

// HashToken is what may be kept of a token: its SHA-256, 64 hex digits.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
