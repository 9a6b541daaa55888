// Package gatehouse keeps who may speak for a terminal (tokens, keys and their
// certificates) and what waits for a second pair of eyes or was decided.
//
// It makes no key, signs nothing, and does not know who may decide. Its methods
// are promoted by store.Store.
package gatehouse

import (
	"errors"
	"fmt"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// Errors that callers test for.
var (
	// ErrTokenInvalid: the token is unknown, used, voided or expired; the text
	// says which.
	ErrTokenInvalid = errors.New("the token is not valid")
	// ErrKeyTaken: the public key is another terminal's, or revoked.
	ErrKeyTaken = errors.New("the key cannot be taken")
	// ErrDecided: the approval is no longer pending; the text says why.
	ErrDecided = errors.New("the approval is not pending")
	// ErrSamePerson: who asked may not approve.
	ErrSamePerson = errors.New("who asked for it may not approve it")
)

// OtherTerminalError says whose the token is that another terminal came with. The
// token is as it was.
type OtherTerminalError struct{ StoreID, TerminalID string }

// Error is the sentence.
func (e *OtherTerminalError) Error() string {
	return fmt.Sprintf("the token is for terminal %s of store %s", e.TerminalID, e.StoreID)
}

// lostAnswer is how long the key that used a token may use it again: its
// answer may have been lost, and the operator should not have to come back.
const lostAnswer = 10 * time.Minute

// Gatehouse reads and writes tokens, keys and approvals. Safe for concurrent
// use.
type Gatehouse struct{ db *sqlite.DB }

// New returns the gatehouse in the database.
func New(db *sqlite.DB) *Gatehouse { return &Gatehouse{db: db} }

// Enrolment lets one terminal in, once, until it expires.
type Enrolment struct {
	TokenSHA256 string // of the whole token, lower-case hex
	StoreID     string
	TerminalID  string
	CreatedBy   string
	CreatedAt   time.Time
	ExpiresAt   time.Time
}

// TerminalKey is a public key of a terminal and one certificate of it. Serial,
// IssuedAt and NotAfter are the certificate's; lists say which one they show.
type TerminalKey struct {
	KeyID      string
	StoreID    string
	TerminalID string
	PublicKey  string // base64
	Serial     string // lower-case hex without colons
	IssuedAt   time.Time
	NotAfter   time.Time
	RevokedAt  time.Time // zero: it is trusted
}

// who names a terminal in the audit. No user's name holds a slash.
func who(storeID, terminalID string) string { return storeID + "/" + terminalID }

func entry(actor, action, subject, detail string, now time.Time) audit.Entry {
	return audit.Entry{At: now, Actor: actor, Action: action, Subject: subject, Detail: detail}
}
