// Package identity keeps headquarters' identity folder: the private certificate
// authority, the certificate of its listeners, the list of revoked certificates,
// and the keys with which headquarters signs what it says.
//
// It opens no connection and decides nobody's rights: who may have a
// certificate, and whose is revoked, callers say.
package identity

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// The files of an identity folder. All but the public ones are their owner's
// alone.
const (
	FileAuthorityKey = "ca.key"
	FileAuthority    = "ca.crt"
	FileServerKey    = "broker.key"
	FileServer       = "broker.crt" // the certificate, then the authority's
	FileRevoked      = "crl.pem"
	FileTrust        = "trust.json"
	FolderSigning    = "signing"
)

// Identity is an open identity folder. Safe for concurrent use; one process
// alone may change a folder.
type Identity struct {
	folder       string
	authority    *x509.Certificate
	authorityPEM []byte

	change   sync.Mutex         // held by whoever changes the folder
	relistAt time.Time          // not before this is a list tried again; guarded by change
	announce func(trust.Sealed) // nil: nobody is told; guarded by change
	mu       sync.RWMutex       // guards what follows
	server   tls.Certificate
	sealed   trust.Sealed
	keys     trust.Document
	signer   map[string]*trust.Signer // by key id
	made     []Rotated

	reached atomic.Int64 // newest time by which headquarters may have signed, epoch ms
	clock   func() time.Time
}

// Open reads a folder that Create made, after a look at the rights of every
// file in it, and renews the server's certificate once two thirds of its
// lifetime are over; without the authority's key or room on the disk the old one
// serves until it ends, see Renew. The authority's private key is not read unless
// something is to be signed with it; it may be kept elsewhere until then.
func Open(folder string, now time.Time) (*Identity, error) {
	id := &Identity{folder: folder, clock: time.Now}
	if err := id.load(now); err != nil {
		return nil, fmt.Errorf("cannot open the identity folder %s: %w", folder, err)
	}
	if _, err := id.Renew(now); err != nil && !now.Before(id.server.Leaf.NotAfter) {
		return nil, fmt.Errorf("cannot open the identity folder %s: %w", folder, err)
	}
	return id, nil
}

func (id *Identity) load(now time.Time) (err error) {
	if err := checkModes(id.folder); err != nil {
		return err
	}
	if err := id.loadAuthority(now); err != nil {
		return err
	}
	if id.server, err = id.loadServer(); err != nil {
		return err
	}
	if _, err := id.revocations(); err != nil {
		return err
	}
	data, err := id.read(FileTrust)
	if err != nil {
		return err
	}
	var file kept
	if err := protocol.Decode(data, maxTrustBytes, &file); err != nil {
		return fmt.Errorf("cannot read %s: %w", FileTrust, err)
	}
	id.sealed, id.made = file.Sealed, file.Rotations
	if id.keys, err = id.sealed.Open(id.authority); err != nil {
		return fmt.Errorf("%s was not sealed by the authority of this folder; restore it from a backup: %w", FileTrust, err)
	}
	id.Reached(id.keys.At.Time)
	return id.loadSigners(now)
}

// maxTrustBytes bounds trust.json: a document of 64 KiB as a JSON string.
const maxTrustBytes = 256 << 10

func (id *Identity) loadAuthority(now time.Time) (err error) {
	if id.authorityPEM, err = id.read(FileAuthority); err != nil {
		return err
	}
	if id.authority, err = trust.DecodeCertificate(id.authorityPEM); err != nil {
		return fmt.Errorf("cannot use %s: %w", FileAuthority, err)
	}
	if _, ok := id.authority.PublicKey.(*ecdsa.PublicKey); !ok || !id.authority.IsCA {
		return fmt.Errorf("cannot use %s: it is not the certificate of an authority that init made", FileAuthority)
	}
	if now.After(id.authority.NotAfter) {
		return fmt.Errorf("cannot use %s: it ended on %s; make a new folder and enrol the terminals again",
			FileAuthority, id.authority.NotAfter.UTC().Format(time.DateOnly))
	}
	return nil
}

// read returns a file of the folder; its rights have been looked at.
func (id *Identity) read(name string) ([]byte, error) {
	data, err := os.ReadFile(id.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing; restore it from a backup of the folder", name)
	}
	return data, err
}

func (id *Identity) path(name ...string) string {
	return filepath.Join(append([]string{id.folder}, name...)...)
}

// Authority is the authority's certificate as PEM.
func (id *Identity) Authority() []byte { return id.authorityPEM }

// Certificate is the authority's certificate.
func (id *Identity) Certificate() *x509.Certificate { return id.authority }

// AuthorityHash names the authority to those who pin it: the SHA-256 of its
// SubjectPublicKeyInfo, 64 hex digits.
func (id *Identity) AuthorityHash() string {
	sum := sha256.Sum256(id.authority.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// KeepTime has handshakes judged by a clock, which is this machine's otherwise.
// Call it before TLSConfig.
func (id *Identity) KeepTime(clock func() time.Time) { id.clock = clock }

// TLSConfig is for a listener that takes enrolled terminals and those that are
// not enrolled yet: it shows the server's certificate with the authority's,
// asks for a certificate and checks one that is given. TLS 1.3 alone.
func (id *Identity) TLSConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(id.authority)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       id.clock,
		ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs:  pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			id.mu.RLock()
			defer id.mu.RUnlock()
			server := id.server
			return &server, nil
		},
	}
}

// Announce has say told of each list that takes the place of another from now on: once
// it is kept, and before anything is signed by it, since terminals refuse what is signed
// by a key of which they have not heard. Whoever signs may wait for say, so say waits for
// no answer from outside, and asks for no change of the list.
func (id *Identity) Announce(say func(trust.Sealed)) {
	id.change.Lock()
	defer id.change.Unlock()
	id.announce = say
}

// Sealed is the list of signing keys as it is published.
func (id *Identity) Sealed() trust.Sealed {
	id.mu.RLock()
	defer id.mu.RUnlock()
	return id.sealed
}

// Keys is the list of signing keys. Its version grows with every change.
func (id *Identity) Keys() trust.Document {
	id.mu.RLock()
	defer id.mu.RUnlock()
	return id.keys
}
