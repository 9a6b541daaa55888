package trust_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// authority is a private certificate authority.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{key, cert}
}

func (a authority) seal(t *testing.T, text string) trust.Sealed {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return trust.Sealed{Document: text, Signature: signature}
}

var noon = time.Date(2026, 9, 17, 12, 0, 0, 0, time.UTC)

func document(seeds ...byte) trust.Document {
	d := trust.Document{Version: 3, At: protocol.At(noon)}
	for _, seed := range seeds {
		public := publicOf(keyOf(seed))
		d.Keys = append(d.Keys, trust.Key{KeyID: trust.KeyID(public), Public: public,
			NotBefore: protocol.At(noon), NotAfter: protocol.At(noon.Add(time.Hour))})
	}
	return d
}

func text(t *testing.T, d trust.Document) string {
	t.Helper()
	s, err := d.Text()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnlyTheAuthoritysListOfKeysIsTrusted(t *testing.T) {
	t.Parallel()
	ca, foreign := newAuthority(t), newAuthority(t)
	good := text(t, document('a', 'b'))
	d, err := ca.seal(t, good).Open(ca.cert)
	if err != nil || d.Version != 3 || len(d.Keys) != 2 {
		t.Fatalf("%+v: %v", d, err)
	}
	renamed := document('a')
	renamed.Keys[0].KeyID = trust.KeyID(publicOf(keyOf('b')))
	altered := ca.seal(t, good)
	altered.Document = strings.Replace(altered.Document, `"version":3`, `"version":4`, 1)
	for name, sealed := range map[string]trust.Sealed{
		"foreign authority": foreign.seal(t, good),
		"altered":           altered,
		"unsealed":          {Document: good},
		"empty":             {},
		"no key":            ca.seal(t, text(t, trust.Document{Version: 1})),
		"no version":        ca.seal(t, strings.Replace(good, `"version":3`, `"version":0`, 1)),
		"key misnamed":      ca.seal(t, text(t, renamed)),
		"doubled member":    ca.seal(t, strings.Replace(good, `"version":3`, `"version":3,"version":9`, 1)),
	} {
		if _, err := sealed.Open(ca.cert); err == nil {
			t.Errorf("%s: it was trusted", name)
		}
	}
}

func TestDocumentFindsTheKeyAndItsTime(t *testing.T) {
	t.Parallel()
	d, payload := document('a'), []byte(`{"x":1}`)
	signature := trust.NewSigner(keyOf('a')).Sign(topic, payload)
	key, err := d.Verify(topic, payload, signature)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]bool{
		noon.Add(-time.Millisecond): false, noon: true, noon.Add(time.Hour): true, noon.Add(time.Hour + time.Millisecond): false,
	} {
		if key.Covers(at) != want {
			t.Errorf("covers %v: %v", at, !want)
		}
	}
	stranger := trust.NewSigner(keyOf('b')).Sign(topic, payload)
	if _, err := d.Verify(topic, payload, stranger); !errors.Is(err, trust.ErrUnknownKey) {
		t.Errorf("a stranger: %v", err)
	}
	stranger.KeyID = signature.KeyID
	if _, err := d.Verify(topic, payload, stranger); !errors.Is(err, trust.ErrBadSignature) {
		t.Errorf("a stranger under a trusted key's id: %v", err)
	}
	if _, err := d.Verify(topic, payload, trust.Signature{}); !errors.Is(err, trust.ErrUnsigned) {
		t.Errorf("unsigned: %v", err)
	}
}
