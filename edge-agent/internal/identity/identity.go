// Package identity is how a terminal proves who it is and knows headquarters: a
// folder with its private key, the certificate that headquarters' authority gave
// it, that authority's own certificate, and the list of keys with which
// headquarters signs.
//
// It opens no connection and asks for no certificate; package enrol does.
package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// The reasons for which a folder is no identity to work with, or a list of keys is
// not taken.
var (
	// ErrNone: the folder holds no finished identity.
	ErrNone = errors.New("no identity")
	// ErrEnded: the certificate is past its end, and cannot be renewed any more.
	ErrEnded = errors.New("the terminal's certificate has ended")
	// ErrOldDocument: a list of keys is older than the one that is held.
	ErrOldDocument = errors.New("the list of keys is older than the one that is held")
	// ErrUnkept: a list of keys is good and new, and cannot be written down now.
	ErrUnkept = errors.New("the list of keys cannot be kept")
)

// The files of an identity. What begins with "next" is on its way to the name
// without it, see Replace.
const (
	keyFile          = "terminal.key"
	certFile         = "terminal.crt"
	nextKeyFile      = "next.key"
	nextCertFile     = "next.crt"
	authorityFile    = "ca.crt"
	trustFile        = "trust.json"
	headquartersFile = "headquarters.json"
)

// Identity is one terminal's. Safe for concurrent use; call Open.
type Identity struct {
	folder          string
	store, terminal string
	authority       *x509.Certificate
	headquarters    string

	mu       sync.Mutex
	pair     pair
	document trust.Document
	told     told
}

// headquarters is the content of headquarters.json.
type headquarters struct {
	EnrolmentURL string `json:"enrolmentUrl"`
}

// Open reads the identity of one terminal of a store. It checks that nobody else
// can read the folder, that the authority stands behind the certificate, and that
// this names the very terminal, belongs to the key and has not ended at now, the
// terminal's own clock. A clock that is behind is no fault, see Behind. It fails
// with ErrNone, ErrEnded or trust.ErrOpenToOthers; every error says what to do.
func Open(folder, store, terminal string, now time.Time) (*Identity, error) {
	id, err := open(folder, store, terminal, now)
	if err != nil {
		return nil, fmt.Errorf("cannot use identity folder %s: %w", folder, err)
	}
	return id, nil
}

func open(folder, store, terminal string, now time.Time) (*Identity, error) {
	if err := trust.CheckPrivate(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: run: edge-agent enroll", ErrNone)
	} else if err != nil {
		return nil, err
	}
	_ = trust.RemoveUnfinished(folder) // or the next start does
	id := &Identity{folder: folder, store: store, terminal: terminal}
	p, where, err := readPair(folder)
	if err != nil {
		return nil, err
	}
	text, err := id.read(authorityFile)
	if err != nil {
		return nil, err
	}
	if id.authority, err = trust.DecodeCertificate(text); err != nil {
		return nil, fmt.Errorf("%s: %w; %s", authorityFile, err, enrolAgain)
	}
	if err := id.check(p.certificate.Leaf, now); err != nil {
		return nil, err
	}
	id.pair = p
	if err := id.readHeadquarters(); err != nil {
		return nil, err
	}
	return id, where.settle(folder)
}

// enrolAgain is what mends an identity that cannot be used.
const enrolAgain = "ask headquarters for a new token and run: edge-agent enroll --force"

// check asks whether a certificate is this terminal's, of this authority, and
// not past its end.
func (i *Identity) check(cert *x509.Certificate, now time.Time) error {
	holder, err := trust.HolderOf(cert)
	if err != nil {
		return fmt.Errorf("%s: %w; %s", certFile, err, enrolAgain)
	}
	if want := (trust.Holder{Store: i.store, Terminal: i.terminal}); holder != want {
		return fmt.Errorf("%s is for %s, not for terminal %s of store %s: correct store and terminal in the configuration, or enrol again with --force",
			certFile, cert.URIs[0], i.terminal, i.store)
	}
	if now.After(cert.NotAfter) {
		return fmt.Errorf("%w on %s (this terminal's clock shows %s: set it, or, if it is right, %s)",
			ErrEnded, cert.NotAfter.Format(time.RFC3339), now.Format(time.RFC3339), enrolAgain)
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: i.Roots(), CurrentTime: later(later(now, cert.NotBefore), i.authority.NotBefore),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("%s is not of the authority in %s: %w; %s", certFile, authorityFile, err, enrolAgain)
	}
	return nil
}

// readHeadquarters reads what headquarters told of itself.
func (i *Identity) readHeadquarters() error {
	var hq headquarters
	if err := i.readJSON(headquartersFile, &hq); err != nil {
		return err
	}
	if hq.EnrolmentURL == "" {
		return fmt.Errorf("%s names no enrolmentUrl; %s", headquartersFile, enrolAgain)
	}
	i.headquarters = hq.EnrolmentURL
	var sealed trust.Sealed
	if err := i.readJSON(trustFile, &sealed); err != nil {
		return err
	}
	var err error
	if i.document, err = sealed.Open(i.authority); err != nil {
		return fmt.Errorf("%s: %w; %s", trustFile, err, enrolAgain)
	}
	return nil
}

func (i *Identity) readJSON(name string, value any) error {
	text, err := i.read(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("%s cannot be read: %w; %s", name, err, enrolAgain)
	}
	return nil
}

// read reads a file that headquarters sent. One that others may read says itself
// how that is mended.
func (i *Identity) read(name string) ([]byte, error) {
	text, err := trust.ReadOwn(i.path(name))
	if err != nil && !errors.Is(err, trust.ErrOpenToOthers) {
		return nil, fmt.Errorf("%s cannot be read: %w; %s", name, err, enrolAgain)
	}
	return text, err
}

func (i *Identity) path(name string) string { return filepath.Join(i.folder, name) }

// Signer signs what the terminal says, with the key of the newest certificate.
func (i *Identity) Signer() *trust.Signer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pair.signer
}

// Certificate is what the terminal shows in a TLS handshake. Its Leaf is set.
func (i *Identity) Certificate() tls.Certificate {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pair.certificate
}

// Holder names the terminal.
func (i *Identity) Holder() trust.Holder {
	return trust.Holder{Store: i.store, Terminal: i.terminal}
}

// EnrolmentURL is where the certificate is renewed.
func (i *Identity) EnrolmentURL() string { return i.headquarters }

// Document lists headquarters' signing keys, the newest list that was taken.
func (i *Identity) Document() trust.Document {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.document
}

// Take takes a list of keys in, a trust.Sealed as JSON: of a higher version than
// the one that is held, sealed by the authority, and on the disk before it
// counts, or it fails with ErrUnkept. It reports whether it did; the very version
// again is no error, an older one ErrOldDocument.
func (i *Identity) Take(payload []byte) (taken bool, err error) {
	var sealed trust.Sealed
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &sealed); err != nil {
		return false, fmt.Errorf("cannot read the list of keys: %w", err)
	}
	document, err := sealed.Open(i.authority)
	if err != nil {
		return false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case document.Version == i.document.Version:
		return false, nil
	case document.Version < i.document.Version:
		return false, fmt.Errorf("version %d, held %d: %w", document.Version, i.document.Version, ErrOldDocument)
	}
	if err := writeJSON(i.path(trustFile), sealed); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnkept, err)
	}
	i.document = document
	return true, nil
}

// Replace takes a certificate that headquarters made just now and its key into use,
// see pair.go.
func (i *Identity) Replace(key ed25519.PrivateKey, certificate []byte, now time.Time) error {
	p, err := newPair(key, certificate)
	if err != nil {
		return err
	}
	if err := i.check(p.certificate.Leaf, now); err != nil {
		return err
	}
	if err := writePair(i.folder, key, certificate); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pair, i.told = p, told{at: p.certificate.Leaf.NotBefore, since: time.Now()}
	return nil
}
