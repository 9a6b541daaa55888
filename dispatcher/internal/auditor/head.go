package auditor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// signedAs stands in the place of the topic in a head's signature, so that a
	// signature over a message can never be one over a head, nor the other way
	// round: no topic of ours is called so.
	signedAs = "muster/audit/head"
	// maxLine bounds a line; they have some 300 bytes.
	maxLine = 1 << 10
)

// note is a line of the file. Its signature is over signedAs ‖ the line as it
// would be without "sig" (and without its end of line).
type note struct {
	ID        int64         `json:"id"`
	Hash      string        `json:"hash"`
	Count     int64         `json:"count"`
	At        protocol.Time `json:"at"` // headquarters' clock
	KeyID     string        `json:"kid,omitempty"`
	Signature string        `json:"sig,omitempty"`
}

func (n note) head() store.AuditHead {
	return store.AuditHead{ID: n.ID, Hash: n.Hash, Count: n.Count}
}

func compose(head store.AuditHead, now time.Time, signer *trust.Signer) ([]byte, error) {
	n := note{ID: head.ID, Hash: head.Hash, Count: head.Count, At: protocol.At(now.UTC())}
	if signer != nil {
		n.KeyID = signer.KeyID()
		text, err := protocol.Encode(n)
		if err != nil {
			return nil, err
		}
		n.Signature = signer.Sign(signedAs, text).Value
	}
	return protocol.Encode(n)
}

// parse reads a line that compose wrote, and refuses every other spelling of
// it.
func parse(line []byte) (note, error) {
	var n note
	if err := protocol.Decode(line, maxLine, &n); err != nil {
		return n, err
	}
	again, err := protocol.Encode(n)
	if err == nil && !bytes.Equal(again, line) {
		err = errors.New("it is not written as headquarters writes it")
	}
	if err != nil {
		return n, err
	}
	return n, n.check()
}

// What keys that are at hand say of a head that none of them proves.
var (
	errUnchecked = errors.New("there are no keys to prove it")
	errUnsigned  = errors.New("it is not signed, and headquarters had a key to sign it with")
	errUnknown   = errors.New("it is signed with a key that is not on the list, and headquarters had one that is " +
		"(when the list is older than the heads, take the newest trust.json)")
	// errOutOfTime: one of the keys signed it, outside of the key's time.
	errOutOfTime = errors.New("its key was not to sign at that time")
)

// check refuses what is the head of no chain.
func (n note) check() error {
	digest, err := hex.DecodeString(n.Hash)
	empty := n.ID == 0 && n.Count == 0 && n.Hash == ""
	if !empty && (n.ID < 1 || n.Count < 1 || err != nil || len(digest) != sha256.Size) {
		return fmt.Errorf("entry %d with hash %.80q is the head of no chain", n.ID, n.Hash)
	}
	return nil
}

// verify returns nil when one of the keys signed the note in its time, one of
// the errors above, else why it is a forgery.
func (n note) verify(keys *trust.Document) error {
	switch {
	case keys == nil:
		return errUnchecked
	case n.Signature == "" && n.KeyID == "":
		return errUnsigned
	}
	bare := n
	bare.Signature = ""
	text, err := protocol.Encode(bare)
	if err != nil {
		return err
	}
	key, err := keys.Verify(signedAs, text, trust.Signature{KeyID: n.KeyID, Value: n.Signature})
	switch {
	case errors.Is(err, trust.ErrUnknownKey):
		return fmt.Errorf("key %s: %w", n.KeyID, errUnknown)
	case err != nil:
		return fmt.Errorf("key %s: %w", n.KeyID, err)
	case !key.Covers(n.At.Time):
		return errOutOfTime
	}
	return nil
}
