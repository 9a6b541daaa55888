// Package hqtest plays headquarters' side of a terminal's identity in tests: a
// real certificate authority, signing keys, the sealed list of them, and
// enrolment over HTTPS.
//
// Only tests import it. It decides nothing about tasks.
package hqtest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"muster/edge-agent/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// HQ is a headquarters with an authority of its own and one signing key.
type HQ struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// Key signs from a day before New to ten years after; Listed is it in a list.
	Key    *trust.Signer
	Listed trust.Key
}

// New makes the keys.
func New(t testing.TB) *HQ {
	t.Helper()
	h := &HQ{t: t}
	var err error
	h.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	h.must(err)
	now := time.Now()
	template := &x509.Certificate{SerialNumber: h.serial(), Subject: pkix.Name{CommonName: "Muster authority of a test"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(10 * 365 * 24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, h.key.Public(), h.key)
	h.must(err)
	h.cert, err = x509.ParseCertificate(der)
	h.must(err)
	h.Key, h.Listed = h.NewKey(now.Add(-24*time.Hour), now.Add(10*365*24*time.Hour))
	return h
}

func (h *HQ) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *HQ) serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	h.must(err)
	return n
}

// NewKey makes a signing key and its line in a list.
func (h *HQ) NewKey(from, until time.Time) (*trust.Signer, trust.Key) {
	h.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	h.must(err)
	return trust.NewSigner(private), trust.Key{KeyID: trust.KeyID(public), Public: public,
		NotBefore: protocol.At(from), NotAfter: protocol.At(until)}
}

// Seal makes a list of keys that the authority stands behind.
func (h *HQ) Seal(version int64, keys ...trust.Key) trust.Sealed {
	h.t.Helper()
	text, err := trust.Document{Version: version, At: protocol.At(time.Now()), Keys: keys}.Text()
	h.must(err)
	sum := sha256.Sum256([]byte(text))
	seal, err := ecdsa.SignASN1(rand.Reader, h.key, sum[:])
	h.must(err)
	return trust.Sealed{Document: text, Signature: seal}
}

// Authority is the authority's certificate, PEM.
func (h *HQ) Authority() []byte { return trust.EncodeCertificate(h.cert.Raw) }

// Issue gives a terminal a certificate, PEM.
func (h *HQ) Issue(public ed25519.PublicKey, holder trust.Holder, from, until time.Time) []byte {
	h.t.Helper()
	return trust.EncodeCertificate(h.sign(&x509.Certificate{SerialNumber: h.serial(), NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{holder.URI()}}, public))
}

func (h *HQ) sign(template *x509.Certificate, public any) []byte {
	h.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, h.cert, public, h.key)
	h.must(err)
	return der
}

// Server makes a server certificate for 127.0.0.1, with the chain that holds the
// authority.
func (h *HQ) Server(from, until time.Time) tls.Certificate {
	h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	h.must(err)
	der := h.sign(&x509.Certificate{SerialNumber: h.serial(), NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, key.Public())
	return tls.Certificate{Certificate: [][]byte{der, h.cert.Raw}, PrivateKey: key}
}

// Pool holds the authority alone.
func (h *HQ) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(h.cert)
	return pool
}

// Parts is what an enrolment brings a terminal: a new key, a certificate of 90
// days, and a list with Listed alone.
func (h *HQ) Parts(store, terminal string) identity.Parts {
	h.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	h.must(err)
	now := time.Now()
	return identity.Parts{Store: store, Terminal: terminal, Key: private, Authority: h.Authority(),
		Certificate: h.Issue(public, trust.Holder{Store: store, Terminal: terminal}, now.Add(-time.Hour), now.Add(90*24*time.Hour)),
		Trust:       h.Seal(1, h.Listed), EnrolmentURL: "https://127.0.0.1:1"}
}

// Enrolled makes an identity folder.
func (h *HQ) Enrolled(store, terminal string) string {
	h.t.Helper()
	folder := filepath.Join(h.t.TempDir(), "identity")
	_, err := identity.Create(folder, h.Parts(store, terminal), time.Now())
	h.must(err)
	return folder
}

// Revoke makes a list of revoked certificates (RFC 5280, section 5), PEM.
func (h *HQ) Revoke(certs ...*x509.Certificate) []byte {
	h.t.Helper()
	now := time.Now()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(time.Hour)}
	for _, cert := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: now})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, h.cert, h.key)
	h.must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// Paths names PEM files of a listener.
type Paths struct{ Certificate, Key, Authority string }

// Files writes what a listener needs that asks for certificates.
func (h *HQ) Files(server tls.Certificate, folder string) Paths {
	h.t.Helper()
	paths := Paths{filepath.Join(folder, "broker.crt"), filepath.Join(folder, "broker.key"), filepath.Join(folder, "ca.crt")}
	key, err := trust.EncodeKey(server.PrivateKey)
	h.must(err)
	for path, text := range map[string][]byte{paths.Certificate: trust.EncodeCertificate(server.Certificate[0]),
		paths.Key: key, paths.Authority: h.Authority()} {
		h.must(trust.WritePrivate(path, text))
	}
	return paths
}
