package trust

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	"muster/internal/protocol"
)

// Key is one of headquarters' signing keys. Its times are headquarters' clock.
type Key struct {
	KeyID     string            `json:"kid"`
	Public    ed25519.PublicKey `json:"publicKey"` // base64, 32 bytes
	NotBefore protocol.Time     `json:"notBefore"`
	NotAfter  protocol.Time     `json:"notAfter"`
}

// Covers reports whether the key may sign at a time of headquarters' clock.
func (k Key) Covers(at time.Time) bool {
	return !at.Before(k.NotBefore.Time) && !at.After(k.NotAfter.Time)
}

// Document lists the keys with which headquarters signs. Of two documents the
// one with the higher version counts; a key that is gone from it is void.
type Document struct {
	Version int64         `json:"version"` // from 1
	At      protocol.Time `json:"at"`
	Keys    []Key         `json:"keys"`
}

// Sealed is a document as it travels: the text, and the signature of the
// private certificate authority over its bytes (ECDSA P-256 with SHA-256, ASN.1
// DER as crypto/x509 checks it, base64 in JSON).
type Sealed struct {
	Document  string `json:"document"`
	Signature []byte `json:"signature"`
}

// maxDocument bounds a document; one key takes 200 bytes.
const maxDocument = 64 << 10

// Open checks the seal and reads the document. It refuses one without a key,
// and a key whose id is not its own.
func (s Sealed) Open(authority *x509.Certificate) (Document, error) {
	if err := authority.CheckSignature(x509.ECDSAWithSHA256, []byte(s.Document), s.Signature); err != nil {
		return Document{}, fmt.Errorf("cannot trust the list of keys: %w", err)
	}
	var d Document
	if err := protocol.Decode([]byte(s.Document), maxDocument, &d); err != nil {
		return Document{}, fmt.Errorf("cannot read the list of keys: %w", err)
	}
	if d.Version < 1 || len(d.Keys) == 0 {
		return Document{}, fmt.Errorf("cannot use the list of keys: version %d with %d keys", d.Version, len(d.Keys))
	}
	for _, k := range d.Keys {
		if len(k.Public) != ed25519.PublicKeySize || KeyID(k.Public) != k.KeyID {
			return Document{}, fmt.Errorf("cannot use the list of keys: key %q is not the one it names", k.KeyID)
		}
	}
	return d, nil
}

// Text is the document as it is sealed.
func (d Document) Text() (string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("cannot write the list of keys: %w", err)
	}
	return string(text), nil
}

// Verify returns the key that signed topic ‖ payload. Whether it covers the
// message's time is the caller's to ask once the payload is read. It fails with
// ErrUnsigned, ErrUnknownKey or ErrBadSignature.
func (d Document) Verify(topic string, payload []byte, s Signature) (Key, error) {
	if s.IsZero() {
		return Key{}, ErrUnsigned
	}
	for _, k := range d.Keys {
		if k.KeyID == s.KeyID {
			return k, s.Verify(k.Public, topic, payload)
		}
	}
	return Key{}, fmt.Errorf("key %q: %w", s.KeyID, ErrUnknownKey)
}
