package trust_test

import (
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/internal/trust"
)

func TestSecretsAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("rights are kept elsewhere there")
	}
	folder := filepath.Join(t.TempDir(), "identity")
	path := filepath.Join(folder, "a.key")
	for _, text := range []string{"first", "second"} {
		if err := trust.WritePrivate(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := trust.ReadPrivate(path); err != nil || string(got) != text {
			t.Fatalf("%q: %v", got, err)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	if err := trust.CheckPrivate(folder); err != nil {
		t.Error(err)
	}
	for mode, closed := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o601: false, 0o644: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := trust.ReadPrivate(path)
		if closed != (err == nil) || !closed && (!errors.Is(err, trust.ErrOpenToOthers) || !strings.Contains(err.Error(), "chmod 600 "+path)) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // the fault to be found
		t.Fatal(err)
	}
	if err := trust.CheckPrivate(folder); !errors.Is(err, trust.ErrOpenToOthers) || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("open folder: %v", err)
	}
}

// TestWhatACrashLeftOfASecretIsRemoved, and nothing else: not what is being written
// now, nor what others put there.
func TestWhatACrashLeftOfASecretIsRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := map[string]struct {
		age  time.Duration
		left bool
	}{
		"a.key":             {time.Hour, true},
		".a.key.123456":     {time.Hour, false},
		".b.key.98":         {-24 * time.Hour, false}, // the clock was set back since
		".a.key.7":          {time.Second, true},
		".profile":          {time.Hour, true},
		".a.key.old":        {time.Hour, true},
		"report.2026":       {time.Hour, true},
		".folder.1/.file.1": {time.Hour, true},
	}
	for name, file := range files {
		path := filepath.Join(folder, name)
		if err := trust.WritePrivate(path, []byte("x")); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-file.age)
		if err := errors.Join(os.Chtimes(path, then, then), os.Chtimes(filepath.Dir(path), then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if err := trust.RemoveUnfinished(folder); err != nil {
		t.Fatal(err)
	}
	for name, file := range files {
		if _, err := os.Stat(filepath.Join(folder, name)); (err == nil) != file.left {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestASecretThatIsBeingWrittenIsCalledUnfinished: what WritePrivate makes is what
// RemoveUnfinished finds.
func TestASecretThatIsBeingWrittenIsCalledUnfinished(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	taken := filepath.Join(folder, "a.key")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o700); err != nil { // no file takes its place
		t.Fatal(err)
	}
	err := trust.WritePrivate(taken, []byte("x"))
	var rename *os.LinkError
	if !errors.As(err, &rename) || !trust.IsUnfinished(filepath.Base(rename.Old)) {
		t.Errorf("got %v", err)
	}
}

func TestCertificateNamesOneHolder(t *testing.T) {
	t.Parallel()
	for _, holder := range []trust.Holder{{Store: "SH_0312", Terminal: "pos1"}, {Store: "store", Terminal: "terminal"}, {User: "olga"}} {
		got, err := trust.HolderOf(&x509.Certificate{URIs: []*url.URL{holder.URI()}})
		if err != nil || got != holder {
			t.Errorf("%s: %+v %v", holder.URI(), got, err)
		}
	}
	if got := (trust.Holder{Store: "SH_0312", Terminal: "pos1"}).URI().String(); got != "urn:muster:store:SH_0312:terminal:pos1" {
		t.Error(got)
	}
	for _, texts := range [][]string{
		{}, {"urn:muster:store:a:terminal:b", "urn:muster:store:c:terminal:d"}, {"urn:muster:store:a"}, {"urn:muster:store::terminal:b"},
		{"urn:muster:store:a:terminal:"}, {"urn:muster:store:a:terminal:b:terminal:c"}, {"urn:muster:store:a%2Fb:terminal:c"},
		{"urn:muster:user:"}, {"urn:muster:user:a/b"}, {"http://muster:user:olga"}, {"https:muster:user:olga"}, {"urn:other:store:a:terminal:b"},
	} {
		cert := &x509.Certificate{}
		for _, text := range texts {
			uri, err := url.Parse(text)
			if err != nil {
				uri = &url.URL{Opaque: text}
			}
			cert.URIs = append(cert.URIs, uri)
		}
		if got, err := trust.HolderOf(cert); err == nil {
			t.Errorf("%v names %+v", texts, got)
		}
	}
}

func TestKeysAreReadAndNeverRepeated(t *testing.T) {
	t.Parallel()
	text, err := trust.EncodeKey(keyOf('a'))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.DecodeSigner(text)
	if err != nil || signer.KeyID() != trust.KeyID(publicOf(keyOf('a'))) {
		t.Fatalf("%v %v", signer, err)
	}
	ca := newAuthority(t)
	wrong, err := trust.EncodeKey(ca.key)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Split(string(wrong), "\n")[1]
	for _, text := range []string{string(wrong), "", secret, "-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----\n"} {
		if _, err := trust.DecodeSigner([]byte(text)); err == nil || strings.Contains(err.Error(), secret[:20]) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if cert, err := trust.DecodeCertificate(trust.EncodeCertificate(ca.cert.Raw)); err != nil || !cert.Equal(ca.cert) {
		t.Errorf("certificate: %v", err)
	}
	if _, err := trust.DecodeCertificate(wrong); err == nil {
		t.Error("a key was read as a certificate")
	}
}
