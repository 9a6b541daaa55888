// Package trust is what headquarters and terminals share to believe each
// other: keys and their ids, signatures over topic and payload, the window
// that refuses replays, the signed list of headquarters' keys, the names in
// certificates, and files that nobody else may read.
//
// It opens no connection, decides nothing about tasks, and knows no program.
package trust

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
)

// The reasons for which a message is not believed.
var (
	// ErrUnsigned: it carries no signature.
	ErrUnsigned = errors.New("the message is not signed")
	// ErrUnknownKey: its key id names no key that is trusted here.
	ErrUnknownKey = errors.New("the message is signed by an unknown key")
	// ErrBadSignature: the signature does not fit topic and payload.
	ErrBadSignature = errors.New("the signature does not fit topic and payload")
	// ErrExpiredKey: the key was not, or is no longer, valid.
	ErrExpiredKey = errors.New("the message is signed by a key that is not valid at its time")
	// ErrReplayed: the sender's number was seen before, or is too old to tell.
	ErrReplayed = errors.New("the message was seen before, or is too old to tell")
)

// Signature is what travels beside a payload, as the user properties "kid" and
// "sig" of MQTT 5. The zero value is "not signed".
type Signature struct {
	KeyID string // see KeyID
	Value string // 64 bytes of Ed25519 (RFC 8032), base64url without padding
}

// IsZero reports whether there is no signature at all.
func (s Signature) IsZero() bool { return s == Signature{} }

// KeyID names a public key: the first 16 hex digits of its SHA-256. It finds a
// key and proves nothing.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Signer signs what one sender says. Safe for concurrent use.
type Signer struct {
	id  string
	key ed25519.PrivateKey
}

// NewSigner returns a signer with a private key.
func NewSigner(key ed25519.PrivateKey) *Signer {
	public, _ := key.Public().(ed25519.PublicKey) // it has no other type
	return &Signer{id: KeyID(public), key: key}
}

// KeyID names the signer's key.
func (s *Signer) KeyID() string { return s.id }

// Sign signs topic ‖ payload. A payload is a JSON object, and no topic holds
// its first character, so that the two cannot be parted elsewhere.
func (s *Signer) Sign(topic string, payload []byte) Signature {
	return Signature{KeyID: s.id, Value: base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.key, signed(topic, payload)))}
}

// Verify returns nil when public made the signature over topic ‖ payload, else
// ErrUnsigned or ErrBadSignature. It does not look at the key id.
func (s Signature) Verify(public ed25519.PublicKey, topic string, payload []byte) error {
	if s.IsZero() {
		return ErrUnsigned
	}
	value, err := base64.RawURLEncoding.Strict().DecodeString(s.Value)
	if err != nil || len(payload) == 0 || payload[0] != '{' || !ed25519.Verify(public, signed(topic, payload), value) {
		return ErrBadSignature
	}
	return nil
}

func signed(topic string, payload []byte) []byte {
	return append([]byte(topic), payload...)
}
