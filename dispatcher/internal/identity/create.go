package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// authorityYears is how long the authority lives: as long as the chain's
	// machines do. Its end means to enrol every terminal again.
	authorityYears = 10
	// backdate is how far a signing key is valid before its making: what was
	// written a moment ago is signed with it too.
	backdate = 5 * time.Minute
	// predate is the same of certificates. They are good on every machine whose
	// clock is behind, and after headquarters' own was set back: a start is refused
	// on one that stands further behind what headquarters did.
	predate = 48 * time.Hour
)

// ErrExists says that there is something where an identity was to be made.
var ErrExists = errors.New("there is something already")

// Create makes a new identity folder: an authority, a certificate for a server
// that clients reach under the hosts (names or addresses, at least one), an
// empty list of revoked certificates and the first signing key. It fails with
// ErrExists when the folder holds anything. It is made beside its place and
// moved there whole, so that a crash leaves no half of it under its name.
func Create(folder string, hosts []string, now time.Time) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot make the identity folder %s: %w", folder, err)
		}
	}()
	if err := checkHosts(hosts); err != nil {
		return err
	}
	if err := checkEmpty(folder); err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(folder))
	if err := os.MkdirAll(parent, trust.FolderMode); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(parent, ".identity-*") // made with 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft)
	if err := fill(draft, hosts, now); err != nil {
		return err
	}
	if err := os.Remove(folder); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // it was empty; some systems do not move onto a folder
	}
	if err := os.Rename(draft, folder); err != nil {
		return err
	}
	return trust.SyncFolder(parent)
}

func checkEmpty(folder string) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("it holds %s: %w; nothing was changed", entries[0].Name(), ErrExists)
	}
	return nil
}

func fill(folder string, hosts []string, now time.Time) error {
	id := &Identity{folder: folder}
	if err := id.makeAuthority(now); err != nil {
		return err
	}
	if _, err := id.makeServer(hosts, now); err != nil {
		return err
	}
	if err := id.WriteCRL(nil, now); err != nil {
		return err
	}
	// The first key is valid at once and a little before, for a clock that is
	// set back after the folder was made.
	key, err := id.makeSigningKey(now.Add(-backdate))
	if err != nil {
		return err
	}
	_, err = id.seal(trust.Document{Version: 1, At: protocol.At(now.UTC()), Keys: []trust.Key{key}}, nil)
	return err
}

func (id *Identity) makeAuthority(now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "Muster headquarters", SerialNumber: serial.Text(16)},
		NotBefore:             now.Add(-predate),
		NotAfter:              now.AddDate(authorityYears, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if id.authority, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	id.authorityPEM = trust.EncodeCertificate(der)
	text, err := trust.EncodeKey(key)
	if err != nil {
		return err
	}
	return errors.Join(trust.WritePrivate(id.path(FileAuthorityKey), text), trust.WritePrivate(id.path(FileAuthority), id.authorityPEM))
}

// makeSigningKey writes a new key, valid from a moment until the authority
// ends.
func (id *Identity) makeSigningKey(from time.Time) (trust.Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return trust.Key{}, err
	}
	text, err := trust.EncodeKey(private)
	if err != nil {
		return trust.Key{}, err
	}
	kid := trust.KeyID(public)
	if err := trust.WritePrivate(id.signingFile(kid), text); err != nil {
		return trust.Key{}, err
	}
	return trust.Key{KeyID: kid, Public: public, NotBefore: protocol.At(from.UTC()), NotAfter: protocol.At(id.authority.NotAfter.UTC())}, nil
}

// newSerial draws 128 bits, two of them fixed: it is positive and always has 32
// hex digits, so that no reader's way of writing it differs from another's. It
// is far from the 20 octets of RFC 5280, 4.1.2.2, and none comes twice.
func newSerial() (*big.Int, error) {
	text := make([]byte, 16)
	if _, err := rand.Read(text); err != nil {
		return nil, err
	}
	text[0] = text[0]&0x7f | 0x40
	return new(big.Int).SetBytes(text), nil
}
