package enrol_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/enrol"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/trust"
)

// headquarters is a real door with a real identity and a real store.
type headquarters struct {
	t      *testing.T
	folder string // of the identity
	id     *identity.Identity
	store  *store.Store
	server *enrol.Server
	log    *buffer

	mu    sync.Mutex
	ahead time.Duration // of the door's clocks
	off   time.Duration // how far the one that steps was set
}

func setup(t *testing.T, change ...func(*enrol.Config)) *headquarters {
	t.Helper()
	hq := &headquarters{t: t, log: &buffer{}}
	hq.folder, hq.id = newIdentity(t)
	var err error
	if hq.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hq.store.Close() })
	cfg := enrol.Config{Address: "127.0.0.1:0", Keys: hq.store, Identity: hq.id, Now: hq.now, Steady: hq.steady, Burst: 1000,
		Logger: slog.New(slog.NewTextHandler(hq.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&cfg)
	}
	hq.server = enrol.New(cfg)
	if err := hq.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hq.server.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return hq
}

func newIdentity(t *testing.T) (string, *identity.Identity) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "identity")
	if err := identity.Create(folder, []string{"127.0.0.1"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	id, err := identity.Open(folder, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return folder, id
}

type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (hq *headquarters) now() time.Time {
	hq.mu.Lock()
	defer hq.mu.Unlock()
	return time.Now().Add(hq.ahead + hq.off)
}

func (hq *headquarters) steady() time.Time {
	hq.mu.Lock()
	defer hq.mu.Unlock()
	return time.Now().Add(hq.ahead)
}

func (hq *headquarters) set(off time.Duration) {
	hq.mu.Lock()
	defer hq.mu.Unlock()
	hq.off = off
}

func (hq *headquarters) advance(by time.Duration) {
	hq.mu.Lock()
	defer hq.mu.Unlock()
	hq.ahead += by
}

// token lets one terminal in for 24 hours.
func (hq *headquarters) token(storeID, terminalID string) string {
	hq.t.Helper()
	token, err := hq.id.NewToken()
	if err != nil {
		hq.t.Fatal(err)
	}
	now := hq.now()
	if err := hq.store.AddEnrolment(hq.t.Context(), store.Enrolment{TokenSHA256: identity.HashToken(token), StoreID: storeID,
		TerminalID: terminalID, CreatedBy: "host:test", CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour)}); err != nil {
		hq.t.Fatal(err)
	}
	return token
}

// answer is what comes back, good or bad.
type answer struct {
	Store, Terminal, Certificate, Authority      string
	Trust                                        trust.Sealed
	Code, Message, MessageZh, Hint, HintZh, Path string
	status                                       int
}

var errPin = errors.New("the chain does not end in the authority that the token names")

// client trusts who ends its chain in the pinned authority, and may show a
// certificate.
func client(pin string, shown ...tls.Certificate) *http.Client {
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // whatever the door asks for
			return &append(shown, tls.Certificate{})[0], nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			chain := state.PeerCertificates
			last := chain[len(chain)-1]
			if sum := sha256.Sum256(last.RawSubjectPublicKeyInfo); hex.EncodeToString(sum[:]) != pin {
				return errPin
			}
			roots := x509.NewCertPool()
			roots.AddCert(last)
			_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"})
			return err
		}}}}
}

func pinOf(token string) string { return token[strings.LastIndex(token, ".")+1:] }

func (hq *headquarters) post(c *http.Client, path string, body any) (answer, error) {
	hq.t.Helper()
	text, ok := body.(string)
	if !ok {
		data, err := json.Marshal(body)
		if err != nil {
			hq.t.Fatal(err)
		}
		text = string(data)
	}
	response, err := c.Post(fmt.Sprintf("https://%s%s", hq.server.Addr(), path), "application/json", strings.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{status: response.StatusCode}
	if err := json.Unmarshal(data, &got); err != nil {
		return answer{}, fmt.Errorf("%w: %q", err, data)
	}
	return got, nil
}

// enrol asks with a token and returns what came.
func (hq *headquarters) enrol(token string, csr []byte) answer {
	hq.t.Helper()
	got, err := hq.post(client(pinOf(token)), "/v1/enrol", map[string]string{"token": token, "csr": string(csr)})
	if err != nil {
		hq.t.Fatal(err)
	}
	return got
}

// renew shows a certificate and asks for the next.
func (hq *headquarters) renew(key ed25519.PrivateKey, cert string, csr []byte) answer {
	hq.t.Helper()
	got, err := hq.post(client(hq.id.AuthorityHash(), pair(hq.t, key, cert)), "/v1/renew", map[string]string{"csr": string(csr)})
	if err != nil {
		hq.t.Fatal(err)
	}
	return got
}

// enrolled is a terminal that has its first certificate.
func (hq *headquarters) enrolled(storeID, terminalID string) (ed25519.PrivateKey, string) {
	hq.t.Helper()
	key := newKey(hq.t)
	got := hq.enrol(hq.token(storeID, terminalID), request(hq.t, key))
	if got.status != http.StatusOK {
		hq.t.Fatalf("cannot enrol: %+v", got)
	}
	return key, got.Certificate
}

func pair(t *testing.T, key ed25519.PrivateKey, cert string) tls.Certificate {
	t.Helper()
	text, err := trust.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := tls.X509KeyPair([]byte(cert), text)
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyID(key ed25519.PrivateKey) string { return trust.NewSigner(key).KeyID() }

// request is a certificate request, asking for a name if one is given.
func request(t *testing.T, key crypto.Signer, names ...string) []byte {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "anything"}}
	for _, name := range names {
		uri, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// wantHolder checks that the certificate is good and names the terminal alone.
func (hq *headquarters) wantHolder(got answer, storeID, terminalID string) *x509.Certificate {
	hq.t.Helper()
	if got.status != http.StatusOK || got.Store != storeID || got.Terminal != terminalID {
		hq.t.Fatalf("got %+v", got)
	}
	cert, err := trust.DecodeCertificate([]byte(got.Certificate))
	if err != nil {
		hq.t.Fatal(err)
	}
	authority, err := trust.DecodeCertificate([]byte(got.Authority))
	if err != nil {
		hq.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: hq.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		hq.t.Fatal(err)
	}
	if named, err := trust.HolderOf(cert); err != nil || named != (trust.Holder{Store: storeID, Terminal: terminalID}) {
		hq.t.Fatalf("the certificate names %+v, %v", named, err)
	}
	if _, err := got.Trust.Open(authority); err != nil {
		hq.t.Fatal(err)
	}
	return cert
}

func wantRefused(t *testing.T, got answer, status int, code, words string) {
	t.Helper()
	if got.status != status || got.Code != code || !strings.Contains(got.Message, words) || got.MessageZh == "" || got.Hint == "" || got.HintZh == "" || got.Certificate != "" {
		t.Fatalf("got %+v; want %d %s with %q", got, status, code, words)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
