package server_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"muster/broker/server"
	"muster/internal/trust"
)

// authority is a private certificate authority with its files.
type authority struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	folder string
	serial int64
	list   int64 // number of the newest list of revoked certificates

	tickets tls.ClientSessionCache // nil: every handshake is whole
	resumed bool                   // whether the last one was not
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, folder: t.TempDir(), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority " + a.folder},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	a.cert = a.sign(template, template, key.Public())
	a.write("ca.crt", "CERTIFICATE", a.cert.Raw)
	a.serve()
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, public any) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// path is where a file of the authority lies.
func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	a.put(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// put replaces a file as a whole, so that nobody reads half of it.
func (a *authority) put(name string, data []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name+".new"), data, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(a.path(name+".new"), a.path(name)); err != nil {
		a.t.Fatal(err)
	}
}

// serve writes a new certificate for the broker and returns its serial number.
func (a *authority) serve() *big.Int {
	a.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(a.serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, public)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write("broker.crt", "CERTIFICATE", cert.Raw)
	a.write("broker.key", "PRIVATE KEY", der)
	return cert.SerialNumber
}

// issue makes a client's certificate that names what uris say, good until then.
func (a *authority) issue(until time.Time, uris ...*url.URL) tls.Certificate {
	a.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(a.serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		URIs: uris, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, public)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: private, Leaf: cert}
}

func (a *authority) terminal(store, terminal string) tls.Certificate {
	a.t.Helper()
	return a.issue(time.Now().Add(time.Hour), trust.Holder{Store: store, Terminal: terminal}.URI())
}

func (a *authority) user(name string) tls.Certificate {
	a.t.Helper()
	return a.issue(time.Now().Add(time.Hour), trust.Holder{User: name}.URI())
}

// revoke writes the list of revoked certificates.
func (a *authority) revoke(certs ...tls.Certificate) {
	a.t.Helper()
	a.list++
	template := &x509.RevocationList{Number: big.NewInt(a.list), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range certs {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write("crl.pem", "X509 CRL", der)
}

// listener is one that believes the authority, with its list of revoked ones
// when there is a file.
func (a *authority) listener() server.ListenerConfig {
	lc := server.ListenerConfig{
		Address: "127.0.0.1:0", CertFile: a.path("broker.crt"), KeyFile: a.path("broker.key"), ClientCAFile: a.path("ca.crt"),
	}
	if _, err := os.Stat(a.path("crl.pem")); err == nil {
		lc.CRLFile = a.path("crl.pem")
	}
	return lc
}

// config has that listener beside a plain one, and a file of users.
func (a *authority) config(users string) server.Config {
	a.t.Helper()
	a.put("users.yaml", []byte(users))
	return server.Config{
		UsersFile: a.path("users.yaml"),
		Listeners: server.Listeners{TLS: a.listener(), TCP: server.ListenerConfig{Address: "127.0.0.1:0"}},
	}
}

// dial opens a connection over TLS, with a certificate when there is one.
func (a *authority) dial(s *server.Server, cert ...tls.Certificate) *tls.Conn {
	a.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	conn, err := tls.Dial("tcp", s.Addr("tls").String(), &tls.Config{RootCAs: pool, Certificates: cert, ClientSessionCache: a.tickets})
	if err != nil {
		a.t.Fatal(err)
	}
	a.resumed = conn.ConnectionState().DidResume
	a.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// answer is what the broker says to a CONNECT over TLS.
func (a *authority) answer(s *server.Server, l login, cert ...tls.Certificate) (c *client, code byte, reason string) {
	a.t.Helper()
	c, ack, err := connectOver(a.t, packets.NewThreadSafeConn(a.dial(s, cert...)), l)
	if ack == nil {
		a.t.Fatalf("no answer to %q: %v", l.user, err)
	}
	if ack.Properties != nil {
		reason = ack.Properties.ReasonString
	}
	return c, ack.ReasonCode, reason
}
