package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"time"

	"muster/internal/trust"
)

// serverLifetime is how long the server's certificate lives: what clients of
// the web take at most, with no day to spare for them.
const serverLifetime = 397 * 24 * time.Hour

var hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func checkHosts(hosts []string) error {
	if len(hosts) == 0 {
		return errors.New("no host is named under which terminals reach headquarters")
	}
	for _, host := range hosts {
		if net.ParseIP(host) == nil && (len(host) > 253 || !hostName.MatchString(host)) {
			return fmt.Errorf("host %q is no name and no address; write one such as hq.example.com, without scheme and port", host)
		}
	}
	return nil
}

// Renew makes a new server certificate, for the same hosts and key, once
// two thirds of the old one's lifetime are over, and says whether it did.
// Listeners of TLSConfig show it at once; others read broker.crt again.
func (id *Identity) Renew(now time.Time) (bool, error) {
	id.change.Lock()
	defer id.change.Unlock()
	id.mu.RLock()
	leaf := id.server.Leaf
	id.mu.RUnlock()
	if due := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3); now.Before(due) {
		return false, nil
	}
	hosts := leaf.DNSNames
	for _, ip := range leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	made, err := id.makeServer(hosts, now)
	if err != nil {
		return false, fmt.Errorf("cannot renew the server's certificate, which ends on %s: %w", leaf.NotAfter.UTC().Format(time.DateOnly), err)
	}
	id.mu.Lock()
	id.server = made
	id.mu.Unlock()
	return true, nil
}

// makeServer writes a server certificate. It keeps the key of an earlier one,
// so that a crash between two files cannot part a key from its certificate.
func (id *Identity) makeServer(hosts []string, now time.Time) (tls.Certificate, error) {
	key, err := id.serverKey()
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "Muster broker"},
		NotBefore:             now.Add(-predate),
		NotAfter:              earlier(now.Add(serverLifetime), id.authority.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := id.certify(template, key.Public())
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := trust.WritePrivate(id.path(FileServer), append(trust.EncodeCertificate(der), id.authorityPEM...)); err != nil {
		return tls.Certificate{}, err
	}
	return id.loadServer()
}

func (id *Identity) serverKey() (crypto.Signer, error) {
	text, err := os.ReadFile(id.path(FileServerKey))
	if err == nil {
		return trust.DecodeKey(text)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if text, err = trust.EncodeKey(key); err != nil {
		return nil, err
	}
	return key, trust.WritePrivate(id.path(FileServerKey), text)
}

// loadServer reads certificate and key, and checks that they belong together
// and to the authority.
func (id *Identity) loadServer() (tls.Certificate, error) {
	chain, err := id.read(FileServer)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := id.read(FileServerKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	server, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot use %s with %s: %w", FileServer, FileServerKey, err)
	}
	if err := server.Leaf.CheckSignatureFrom(id.authority); err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot use %s: the authority of this folder did not sign it: %w", FileServer, err)
	}
	return server, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
