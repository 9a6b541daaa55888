package auditor

import (
	"bytes"
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
	return n, err
}

// errUnproven: the head may well be headquarters', but these keys cannot tell.
var errUnproven = errors.New("no key at hand proves it")

// verify returns nil when one of the keys signed the note in its time,
// errUnproven when they cannot tell, else why it is a forgery.
func (n note) verify(keys *trust.Document) error {
	if keys == nil || n.Signature == "" && n.KeyID == "" {
		return errUnproven
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
		return errUnproven
	case err != nil:
		return fmt.Errorf("key %s: %w", n.KeyID, err)
	case !key.Covers(n.At.Time):
		return errUnproven
	}
	return nil
}
