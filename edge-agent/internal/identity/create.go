package identity

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"muster/internal/trust"
)

// enrolFile keeps the key of an enrolment that is not finished: headquarters
// answers the same token again for the same key alone.
const enrolFile = "enrol.key"

// Parts is what an enrolment brings. Certificate and Authority are PEM.
type Parts struct {
	Store, Terminal        string
	Key                    ed25519.PrivateKey
	Certificate, Authority []byte
	Trust                  trust.Sealed
	EnrolmentURL           string
}

// Finished reports whether the folder holds a certificate already.
func Finished(folder string) bool {
	for _, name := range []string{certFile, nextCertFile} {
		if _, err := os.Stat(filepath.Join(folder, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// EnrolmentKey returns the key to enrol with: the one that an enrolment which was
// cut off left in the folder, which must be private, else a new one. It changes nothing: see
// KeepEnrolmentKey.
func EnrolmentKey(folder string) (key ed25519.PrivateKey, kept bool, err error) {
	if _, err := os.Stat(folder); err == nil {
		if err := trust.CheckPrivate(folder); err != nil {
			return nil, false, err
		}
	}
	text, err := trust.ReadOwn(filepath.Join(folder, enrolFile))
	if err == nil {
		if key, err := decodeKey(text); err == nil {
			return key, true, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	if _, key, err = ed25519.GenerateKey(nil); err != nil {
		return nil, false, fmt.Errorf("cannot make a key: %w", err)
	}
	return key, false, nil
}

// KeepEnrolmentKey has the key on the disk when it returns. It comes before headquarters is
// asked: that answers the same token for no other key.
func KeepEnrolmentKey(folder string, key ed25519.PrivateKey) error {
	text, err := trust.EncodeKey(key)
	if err != nil {
		return err
	}
	return trust.WritePrivate(filepath.Join(folder, enrolFile), text)
}

// Create checks the parts against each other and stores them. The certificate
// comes last: with it the identity is finished. One that was there before is
// replaced.
func Create(folder string, parts Parts, now time.Time) (*Identity, error) {
	id := &Identity{folder: folder, store: parts.Store, terminal: parts.Terminal, headquarters: parts.EnrolmentURL}
	var err error
	if id.authority, err = trust.DecodeCertificate(parts.Authority); err != nil {
		return nil, fmt.Errorf("the authority's certificate cannot be used: %w", err)
	}
	if id.pair, err = newPair(parts.Key, parts.Certificate); err != nil {
		return nil, fmt.Errorf("the certificate cannot be used: %w", err)
	}
	if err := id.check(id.pair.certificate.Leaf, now); err != nil {
		return nil, err
	}
	if id.document, err = parts.Trust.Open(id.authority); err != nil {
		return nil, err
	}
	if err := id.write(parts); err != nil {
		return nil, err
	}
	if err := DropEnrolmentKey(folder); err != nil {
		return nil, err
	}
	return id, nil
}

// DropEnrolmentKey removes the key of an enrolment that is over.
func DropEnrolmentKey(folder string) error {
	if err := os.Remove(filepath.Join(folder, enrolFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the key of an enrolment that is over: %w", err)
	}
	return nil
}

func (i *Identity) write(parts Parts) error {
	if err := trust.WritePrivate(i.path(authorityFile), parts.Authority); err != nil {
		return err
	}
	if err := writeJSON(i.path(headquartersFile), headquarters{EnrolmentURL: parts.EnrolmentURL}); err != nil {
		return err
	}
	if err := writeJSON(i.path(trustFile), parts.Trust); err != nil {
		return err
	}
	return writePair(i.folder, parts.Key, parts.Certificate)
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return trust.WritePrivate(path, append(text, '\n'))
}
