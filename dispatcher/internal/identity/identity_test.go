package identity_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/internal/trust"
)

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func create(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "identity")
	if err := identity.Create(folder, []string{"hq.example.com", "192.0.2.7"}, start); err != nil {
		t.Fatal(err)
	}
	return folder
}

func open(t *testing.T, folder string, now time.Time) *identity.Identity {
	t.Helper()
	id, err := identity.Open(folder, now)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// request is a PEM certificate request of a new key, asking for names.
func request(t *testing.T, key crypto.Signer, names ...string) []byte {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "anything"}}
	for _, name := range names {
		uri, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
		template.DNSNames = append(template.DNSNames, "hq.example.com")
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Fatalf("got error %v; want one with %q", err, word)
		}
	}
}

func TestCreateMakesAFolderThatIsItsOwnersAlone(t *testing.T) {
	folder := create(t)
	files := 0
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		files++
		return errors.Join(err, trust.CheckPrivate(path))
	})
	if err != nil || files != 9 { // two folders, seven files
		t.Fatalf("%d files and folders, %v", files, err)
	}
	id := open(t, folder, start)
	signer := id.Signer(start)
	document, err := id.Sealed().Open(id.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	key, err := document.Verify("a/b", []byte("{}"), signer.Sign("a/b", []byte("{}")))
	if err != nil || !key.Covers(start) || document.Version != 1 {
		t.Fatalf("the first key does not sign: %+v, %v", document, err)
	}
}

func TestCreateOverwritesNothing(t *testing.T) {
	folder := create(t)
	before, err := os.ReadFile(filepath.Join(folder, identity.FileAuthorityKey))
	if err != nil {
		t.Fatal(err)
	}
	err = identity.Create(folder, []string{"hq.example.com"}, start)
	if !errors.Is(err, identity.ErrExists) {
		t.Fatalf("got %v", err)
	}
	after, err := os.ReadFile(filepath.Join(folder, identity.FileAuthorityKey))
	if err != nil || string(after) != string(before) {
		t.Fatal("the authority's key was changed")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(folder), ".identity-*")); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestWhatACrashLeftOfACreationIsInNobodysWay(t *testing.T) {
	folder := create(t)
	draft := filepath.Join(filepath.Dir(folder), ".identity-1")
	if err := os.Rename(folder, draft); err != nil { // it crashed before it was moved into place
		t.Fatal(err)
	}
	_, err := identity.Open(folder, start)
	wantError(t, err, "it is not there")
	if err := identity.Create(folder, []string{"hq"}, start); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(draft, identity.FileAuthorityKey), filepath.Join(folder, identity.FileAuthorityKey)); err != nil {
		t.Fatal(err)
	}
	wantError(t, rotate(open(t, folder, start), 0, start), "cannot use ca.key: it does not belong to ca.crt")
}

func TestCreateTakesAnEmptyFolderAndRefusesOneFile(t *testing.T) {
	folder := t.TempDir()
	if err := identity.Create(folder, []string{"hq"}, start); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, identity.Create(other, []string{"hq"}, start), "it holds notes.txt", "nothing was changed")
}

func TestCreateRefusesAHostThatIsNone(t *testing.T) {
	for _, host := range []string{"", "https://hq.example.com", "hq.example.com:8883", "a b", "-a"} {
		wantError(t, identity.Create(filepath.Join(t.TempDir(), "id"), []string{host}, start), "is no name and no address")
	}
	wantError(t, identity.Create(filepath.Join(t.TempDir(), "id"), nil, start), "no host is named")
}

// A crash while a folder is made leaves a draft of another name; one that is
// copied half is refused with the missing file's name.
func TestOpenRefusesHalfAFolder(t *testing.T) {
	_, err := identity.Open(filepath.Join(t.TempDir(), "none"), start)
	wantError(t, err, "it is not there; dispatcher init makes one")
	for _, name := range []string{identity.FileAuthority, identity.FileServer, identity.FileServerKey, identity.FileRevoked, identity.FileTrust} {
		folder := create(t)
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(folder, start)
		wantError(t, err, name+" is missing; restore it from a backup")
	}
	folder := create(t)
	if err := os.RemoveAll(filepath.Join(folder, identity.FolderSigning)); err != nil {
		t.Fatal(err)
	}
	_, err = identity.Open(folder, start)
	wantError(t, err, "which trust.json lists, cannot be read")
}

func TestOpenRefusesFilesThatOthersMayReadOrWrite(t *testing.T) {
	folder := create(t)
	keys, err := filepath.Glob(filepath.Join(folder, identity.FolderSigning, "*.key"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	path := func(name string) string { return filepath.Join(folder, name) }
	for file, want := range map[string]string{
		path(identity.FileAuthorityKey): "chmod 600 " + path(identity.FileAuthorityKey),
		path(identity.FileServerKey):    "chmod 600 " + path(identity.FileServerKey),
		path(identity.FileTrust):        "chmod 600 " + path(identity.FileTrust),
		keys[0]:                         "chmod 600 " + keys[0],
	} {
		chmod(t, file, 0o644)
		_, err := identity.Open(folder, start)
		wantError(t, err, "has mode 0644", want)
		if !errors.Is(err, trust.ErrOpenToOthers) {
			t.Error("not ErrOpenToOthers")
		}
		chmod(t, file, 0o600)
	}
	for _, name := range []string{identity.FileAuthority, identity.FileServer, identity.FileRevoked} {
		chmod(t, path(name), 0o644)
		open(t, folder, start)
		chmod(t, path(name), 0o664)
		_, err := identity.Open(folder, start)
		wantError(t, err, "others may write it; run: chmod 644 "+path(name))
		chmod(t, path(name), 0o600)
	}
	chmod(t, folder, 0o755)
	_, err = identity.Open(folder, start)
	wantError(t, err, "chmod 700 "+folder)
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesATamperedListOfKeys(t *testing.T) {
	folder := create(t)
	path := filepath.Join(folder, identity.FileTrust)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `\"version\":1`, `\"version\":2`, 1)
	if changed == string(text) {
		t.Fatal("nothing to tamper with")
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = identity.Open(folder, start)
	wantError(t, err, "trust.json was not sealed by the authority of this folder")
}

func TestOpenRefusesFilesOfAnotherIdentity(t *testing.T) {
	for name, want := range map[string]string{
		identity.FileServer:    "cannot use broker.crt with broker.key",
		identity.FileRevoked:   "cannot use crl.pem: the authority of this folder did not sign it",
		identity.FileTrust:     "was not sealed by the authority",
		identity.FileAuthority: "did not sign it",
	} {
		folder, other := create(t), create(t)
		if err := os.Rename(filepath.Join(other, name), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		_, err := identity.Open(folder, start)
		wantError(t, err, want)
	}
}

func TestIssueNamesTheHolderAndNothingThatWasAskedFor(t *testing.T) {
	id := open(t, create(t), start)
	holder := trust.Holder{Store: "0001", Terminal: "pos-1"}
	key := newKey(t)
	text, draft, err := id.Issue(request(t, key, "urn:muster:store:0002:terminal:pos-9"), holder, 0, start)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := trust.DecodeCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	if named, err := trust.HolderOf(cert); err != nil || named != holder || len(cert.DNSNames) > 0 {
		t.Fatalf("the certificate names %+v %v, %v", named, cert.DNSNames, err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	if cert.NotBefore != start.AddDate(0, 0, -2) || cert.NotAfter != start.AddDate(0, 0, 90) ||
		cert.NotBefore != draft.NotBefore || cert.NotAfter != draft.NotAfter || cert.SerialNumber.Text(16) != draft.Serial ||
		draft.KeyID != trust.KeyID(public) || !draft.PublicKey.Equal(public) {
		t.Fatalf("got %+v; the certificate says %s to %s, serial %x", draft, cert.NotBefore, cert.NotAfter, cert.SerialNumber)
	}
	roots := x509.NewCertPool()
	roots.AddCert(id.Certificate())
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a terminal's certificate would do for a server")
	}
}

func TestIssueSerialsAreNeverTheSame(t *testing.T) {
	id := open(t, create(t), start)
	csr, seen := request(t, newKey(t)), map[string]bool{}
	for range 200 {
		draft, err := id.Draft(csr, time.Hour, start)
		if err != nil || len(draft.Serial) != 32 || draft.Serial[0] == '0' || seen[draft.Serial] {
			t.Fatalf("serial %q, seen %t, %v", draft.Serial, seen[draft.Serial], err)
		}
		seen[draft.Serial] = true
	}
}

func TestIssueRefusesRequestsOfOtherKeysAndBadSignatures(t *testing.T) {
	id := open(t, create(t), start)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	forged, _ := pem.Decode(request(t, newKey(t)))
	forged.Bytes[len(forged.Bytes)-1] ^= 1
	for name, c := range map[string]struct {
		csr  []byte
		want string
	}{
		"ecdsa":     {request(t, ec), "its key is ECDSA, not Ed25519"},
		"rsa":       {request(t, old), "its key is RSA, not Ed25519"},
		"signature": {pem.EncodeToMemory(forged), "its signature is not by its key"},
		"empty":     {nil, "no PEM certificate request"},
		"rubbish":   {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}), "cannot be read"},
		"other PEM": {id.Authority(), "no PEM certificate request"},
	} {
		_, _, err := id.Issue(c.csr, trust.Holder{User: "alice"}, 0, start)
		if wantError(t, err, c.want); !errors.Is(err, identity.ErrBadRequest) {
			t.Errorf("%s: not ErrBadRequest: %v", name, err)
		}
	}
}

func TestIssueRefusesAHolderThatWouldReadAsAnother(t *testing.T) {
	id := open(t, create(t), start)
	for _, holder := range []trust.Holder{{}, {User: "a:b"}, {Store: "1:terminal:x", Terminal: "y"}} {
		_, _, err := id.Issue(request(t, newKey(t)), holder, 0, start)
		wantError(t, err, "it would not name its holder alone")
	}
}

func TestNoCertificateOutlivesTheAuthority(t *testing.T) {
	id := open(t, create(t), start)
	end := id.Certificate().NotAfter
	draft, err := id.Draft(request(t, newKey(t)), 0, end.AddDate(0, 0, -10))
	if err != nil || !draft.NotAfter.Equal(end) {
		t.Fatalf("ends %s, the authority %s, %v", draft.NotAfter, end, err)
	}
}

func TestTheAuthoritysKeyMayBeKeptElsewhere(t *testing.T) {
	folder := create(t)
	path := filepath.Join(folder, identity.FileAuthorityKey)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	id := open(t, folder, start)
	id.Signer(start).Sign("a", []byte("{}"))
	_, _, err := id.Issue(request(t, newKey(t)), trust.Holder{User: "alice"}, 0, start)
	wantError(t, err, "put ca.key back into "+folder)
	wantError(t, rotate(id, 0, start), "put ca.key back")
	if keys, _ := filepath.Glob(filepath.Join(folder, identity.FolderSigning, "*")); len(keys) != 1 {
		t.Fatalf("a rotation that failed left %v", keys)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := id.Issue(request(t, newKey(t)), trust.Holder{User: "alice"}, 0, start); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRenewsTheServersCertificateAfterTwoThirds(t *testing.T) {
	folder := create(t)
	first := leaf(t, folder)
	open(t, folder, start.AddDate(0, 0, 263))
	if leaf(t, folder).SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Fatal("renewed too early")
	}
	later := start.AddDate(0, 0, 264)
	id := open(t, folder, later)
	renewed := leaf(t, folder)
	if renewed.SerialNumber.Cmp(first.SerialNumber) == 0 || renewed.NotAfter != later.AddDate(0, 0, 397) ||
		renewed.VerifyHostname("hq.example.com") != nil || renewed.VerifyHostname("192.0.2.7") != nil {
		t.Fatalf("renewed certificate: %s to %s for %v %v", renewed.NotBefore, renewed.NotAfter, renewed.DNSNames, renewed.IPAddresses)
	}
	shown, err := id.TLSConfig().GetCertificate(nil)
	if err != nil || shown.Leaf.SerialNumber.Cmp(renewed.SerialNumber) != 0 || len(shown.Certificate) != 2 {
		t.Fatalf("the listener shows another certificate: %v", err)
	}
}

func leaf(t *testing.T, folder string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, identity.FileServer))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := trust.DecodeCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestTokensAreOfOneUseAndNameTheAuthority(t *testing.T) {
	id := open(t, create(t), start)
	first, err := id.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	second, err := id.NewToken()
	if err != nil || first == second || identity.HashToken(first) == identity.HashToken(second) {
		t.Fatalf("two tokens: %v", err)
	}
	if parts := strings.Split(first, "."); len(parts) != 3 || parts[0] != "mt1" || len(parts[1]) != 43 || parts[2] != id.AuthorityHash() || len(parts[2]) != 64 {
		t.Fatalf("token %q", first)
	}
}

// openssl is a second opinion on what others will be shown.
func TestOpensslAgrees(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	folder := create(t)
	now := time.Now()
	id := open(t, folder, start)
	text, draft, err := id.Issue(request(t, newKey(t)), trust.Holder{Store: "0001", Terminal: "pos-1"}, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	terminal := filepath.Join(t.TempDir(), "terminal.crt")
	if err := os.WriteFile(terminal, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ca, crl := filepath.Join(folder, identity.FileAuthority), filepath.Join(folder, identity.FileRevoked)
	verify := func(args ...string) (string, error) {
		out, err := exec.Command(openssl, append([]string{"verify", "-x509_strict", "-attime", unix(now), "-CAfile", ca}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := verify("-purpose", "sslclient", "-crl_check", "-CRLfile", crl, terminal); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := verify("-purpose", "sslserver", "-verify_hostname", "hq.example.com", filepath.Join(folder, identity.FileServer)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := id.WriteCRL([]identity.Revoked{{Serial: draft.Serial, At: now}}, now); err != nil {
		t.Fatal(err)
	}
	if out, err := verify("-purpose", "sslclient", "-crl_check", "-CRLfile", crl, terminal); err == nil || !strings.Contains(out, "revoked") {
		t.Fatalf("a revoked certificate passes: %s", out)
	}
}

// A renewal that is due and cannot be written, as on a full disk or with the
// authority's key kept elsewhere, keeps nobody from starting while the certificate
// is good.
func TestOpenServesTheOldCertificateWhileItIsGood(t *testing.T) {
	folder := create(t)
	if err := os.Remove(filepath.Join(folder, identity.FileAuthorityKey)); err != nil {
		t.Fatal(err)
	}
	due := start.Add(300 * 24 * time.Hour)
	id := open(t, folder, due)
	if _, err := id.Renew(due); err == nil {
		t.Error("renewed without the authority's key")
	}
	_, err := identity.Open(folder, start.Add(398*24*time.Hour))
	wantError(t, err, "cannot renew the server's certificate")
}
