package admin

import (
	"muster/internal/protocol"
	"muster/internal/trust"
)

// TokenRequest asks for a token with which one terminal may enrol. Actor is the
// operator's name on this machine; a lifetime of 0 means 24 hours.
type TokenRequest struct {
	Store        string `json:"store"`
	Terminal     string `json:"terminal"`
	Actor        string `json:"actor"`
	ValidSeconds int64  `json:"validSeconds,omitempty"` // 60 to 604,800
}

// Token is a token; nobody can show it again.
type Token struct {
	Token        string        `json:"token"`
	Store        string        `json:"store"`
	Terminal     string        `json:"terminal"`
	ExpiresAt    protocol.Time `json:"expiresAt"`
	EnrolmentURL string        `json:"enrolmentUrl"` // empty: not configured
}

// RevokeRequest ends the trust in a terminal.
type RevokeRequest struct {
	Store    string `json:"store"`
	Terminal string `json:"terminal"`
	Actor    string `json:"actor"`
}

// Revocation says what was revoked.
type Revocation struct {
	Store        string   `json:"store"`
	Terminal     string   `json:"terminal"`
	Certificates []string `json:"certificates"` // serial numbers
}

// RotateRequest asks for new signing keys. Now strikes every older one out at
// once, because it was stolen.
type RotateRequest struct {
	Actor string `json:"actor"`
	Now   bool   `json:"now,omitempty"`
}

// Rotation is a rotation that waits for a second person.
type Rotation struct {
	ApprovalID  string `json:"approvalId"`
	ContentHash string `json:"contentHash"`
}

// Terminal is one key of a terminal, with its newest certificate.
type Terminal struct {
	Store     string        `json:"store"`
	Terminal  string        `json:"terminal"`
	KeyID     string        `json:"keyId"`
	Serial    string        `json:"serial"`
	IssuedAt  protocol.Time `json:"issuedAt"`
	NotAfter  protocol.Time `json:"notAfter"`
	RevokedAt protocol.Time `json:"revokedAt"` // null: it is trusted
}

// Terminals are all keys of all terminals, by store and terminal. At is
// headquarters' clock.
type Terminals struct {
	At        protocol.Time `json:"at"`
	Terminals []Terminal    `json:"terminals"`
}

// Keys are headquarters' signing keys. Signs names the one in use.
type Keys struct {
	At protocol.Time `json:"at"`
	trust.Document
	Signs string `json:"signs"`
}

// Health is the word of a dispatcher that runs. At is headquarters' time; Clock,
// when it is there, says how that differs from this machine's.
type Health struct {
	OK      bool          `json:"ok"`
	Version string        `json:"version"`
	At      protocol.Time `json:"at"`
	Clock   string        `json:"clock,omitempty"`
	// Troubles are what needs a person, a line each, and is not over.
	Troubles []string `json:"troubles,omitempty"`
}

// Reloaded is what was taken in without a restart.
type Reloaded struct {
	Jobs    int `json:"jobs"`
	Stores  int `json:"stores"`
	Added   int `json:"added"` // stores
	Changed int `json:"changed"`
	Retired int `json:"retired"`
	// NeedRestart are the keys that differ from what is in force and count from the
	// next start on.
	NeedRestart []string `json:"needRestart"`
}

// fault is a refusal on the wire.
type fault struct {
	Code      protocol.Code `json:"code"`
	Message   string        `json:"message"`
	MessageZh string        `json:"messageZh,omitempty"`
	Hint      string        `json:"hint,omitempty"`
	HintZh    string        `json:"hintZh,omitempty"`
	Path      string        `json:"path,omitempty"`
}
