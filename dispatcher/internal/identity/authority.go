package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"time"

	"muster/internal/trust"
)

// authorityKey reads the authority's private key, which is not kept in memory.
func (id *Identity) authorityKey() (*ecdsa.PrivateKey, error) {
	text, err := trust.ReadPrivate(id.path(FileAuthorityKey))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the authority's key is not there; put %s back into %s", FileAuthorityKey, id.folder)
	}
	if err != nil {
		return nil, err
	}
	signer, err := trust.DecodeKey(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", FileAuthorityKey, err)
	}
	key, ok := signer.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(id.authority.PublicKey) {
		return nil, fmt.Errorf("cannot use %s: it does not belong to %s", FileAuthorityKey, FileAuthority)
	}
	return key, nil
}

func (id *Identity) certify(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	key, err := id.authorityKey()
	if err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, template, id.authority, public, key)
}

// seal signs a document and writes it, with the rotations that led to it.
func (id *Identity) seal(document trust.Document, made []Rotated) (trust.Sealed, error) {
	key, err := id.authorityKey()
	if err != nil {
		return trust.Sealed{}, err
	}
	text, err := document.Text()
	if err != nil {
		return trust.Sealed{}, err
	}
	sum := sha256.Sum256([]byte(text))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return trust.Sealed{}, err
	}
	sealed := trust.Sealed{Document: text, Signature: signature}
	data, err := kept{sealed, made}.encode()
	if err != nil {
		return trust.Sealed{}, err
	}
	return sealed, trust.WritePrivate(id.path(FileTrust), data)
}

// Revoked is a certificate that is void before its end.
type Revoked struct {
	Serial string // hex digits without colons
	At     time.Time
}

// WriteCRL writes the whole list of revoked certificates (RFC 5280, section 5),
// unless the folder lists the same ones already. It stays current until the next
// one: who reads it has it from this folder.
func (id *Identity) WriteCRL(revoked []Revoked, now time.Time) error {
	entries := make([]x509.RevocationListEntry, 0, len(revoked))
	for _, r := range revoked {
		serial, ok := new(big.Int).SetString(r.Serial, 16)
		if !ok || serial.Sign() <= 0 {
			return fmt.Errorf("cannot list %q as revoked: it is no serial number in hex digits", r.Serial)
		}
		entries = append(entries, x509.RevocationListEntry{SerialNumber: serial, RevocationTime: r.At.UTC()})
	}
	id.change.Lock()
	defer id.change.Unlock()
	number := big.NewInt(1)
	if before, err := id.revocations(); err == nil && before.Number != nil {
		if sameSerials(before.RevokedCertificateEntries, entries) {
			return nil
		}
		number.Add(before.Number, number)
	}
	key, err := id.authorityKey()
	if err != nil {
		return fmt.Errorf("cannot write the list of revoked certificates: %w", err)
	}
	template := &x509.RevocationList{Number: number, ThisUpdate: now.Add(-predate), NextUpdate: id.authority.NotAfter, RevokedCertificateEntries: entries}
	der, err := x509.CreateRevocationList(rand.Reader, template, id.authority, key)
	if err != nil {
		return fmt.Errorf("cannot write the list of revoked certificates: %w", err)
	}
	return trust.WritePrivate(id.path(FileRevoked), pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

func sameSerials(a, b []x509.RevocationListEntry) bool {
	if len(a) != len(b) {
		return false
	}
	listed := make(map[string]bool, len(a))
	for _, entry := range a {
		listed[string(entry.SerialNumber.Bytes())] = true
	}
	for _, entry := range b {
		if !listed[string(entry.SerialNumber.Bytes())] {
			return false
		}
	}
	return true
}

// revocations reads the list of revoked certificates and checks that the
// authority signed it.
func (id *Identity) revocations() (*x509.RevocationList, error) {
	data, err := id.read(FileRevoked)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "X509 CRL" {
		return nil, fmt.Errorf("cannot use %s: it holds no PEM list of revoked certificates", FileRevoked)
	}
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", FileRevoked, err)
	}
	if err := list.CheckSignatureFrom(id.authority); err != nil {
		return nil, fmt.Errorf("cannot use %s: the authority of this folder did not sign it: %w", FileRevoked, err)
	}
	return list, nil
}
