// Package enrol gets a terminal its identity from headquarters, once with a
// token, and keeps the certificate fresh from then on.
//
// The private keys are made here and never leave the terminal. It knows nothing
// of tasks and messages.
package enrol

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"muster/edge-agent/internal/identity"
	"muster/internal/settings"
	"muster/internal/trust"
)

// ErrFinished says that the folder holds an identity already.
var ErrFinished = errors.New("this terminal is enrolled already")

// Request is one enrolment. Store and Terminal may be empty: then the token
// alone says whose it is; else another one's token is refused, and taken again
// when they are corrected.
type Request struct {
	URL             string // https, of headquarters' enrolment
	Token           string
	Folder          string
	Store, Terminal string
	// Force replaces an identity that is finished.
	Force bool
	// Wall is the terminal's clock; nil: this machine's.
	Wall func() time.Time
}

// Enrol gets the terminal its identity and stores it in the folder. After a cut
// it can be asked for again with the same token. It fails with ErrFinished, a
// *Refusal of headquarters, or what keeps it from being reached; every error says
// what to do.
func Enrol(ctx context.Context, r Request) (*identity.Identity, error) {
	if identity.Finished(r.Folder) && !r.Force {
		return nil, fmt.Errorf("cannot enrol into %s: %w: use --force to replace its identity", r.Folder, ErrFinished)
	}
	if r.Wall == nil {
		r.Wall = time.Now
	}
	pin, err := authorityHash(r.Token)
	if err != nil {
		return nil, fmt.Errorf("cannot enrol: %w", err)
	}
	base, err := ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	a := attempt{folder: r.Folder, new: !there(r.Folder)}
	if a.key, a.kept, err = identity.EnrolmentKey(r.Folder); err != nil {
		return nil, fmt.Errorf("cannot enrol into %s: %w", r.Folder, err)
	}
	got, err := post(ctx, a.keeping(pinned(base.Hostname(), pin, r.Wall)), base.JoinPath("v1", "enrol"),
		question{Token: r.Token, Store: r.Store, Terminal: r.Terminal}, a.key)
	if err != nil {
		return nil, a.failed(err)
	}
	authority, err := trust.DecodeCertificate([]byte(got.Authority))
	if err != nil {
		return nil, fmt.Errorf("cannot use headquarters' answer: authority: %w", err)
	}
	if !isPinned(authority, pin) {
		return nil, errors.New("cannot use headquarters' answer: its authority is not the one of the token")
	}
	if r.Store != "" && (got.Store != r.Store || got.Terminal != r.Terminal) {
		return nil, fmt.Errorf("cannot use headquarters' answer: it is for terminal %s of store %s, not for %s of %s", got.Terminal, got.Store, r.Terminal, r.Store)
	}
	id, err := identity.Create(r.Folder, identity.Parts{Store: got.Store, Terminal: got.Terminal, Key: a.key,
		Certificate: []byte(got.Certificate), Authority: []byte(got.Authority), Trust: got.Trust, EnrolmentURL: base.String()}, r.Wall())
	if err != nil {
		return nil, fmt.Errorf("cannot use headquarters' answer: %w", err)
	}
	return id, nil
}

// ParseURL reads an address of headquarters' enrolment.
func ParseURL(text string) (*url.URL, error) {
	base, err := settings.URL(text, "https")
	if err != nil {
		return nil, fmt.Errorf("cannot enrol at it: headquarters' address %w", err)
	}
	return base, nil
}

// Renew gets a new certificate for a new key and takes both into use, and the
// list of headquarters' keys that comes with it. wall is the terminal's clock.
func Renew(ctx context.Context, id *identity.Identity, wall func() time.Time) error {
	base, err := ParseURL(id.EnrolmentURL())
	if err != nil {
		return err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("cannot make a key: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Time: wall}
	id.Prove(config, base.Hostname())
	got, err := post(ctx, config, base.JoinPath("v1", "renew"), question{}, key)
	if err != nil {
		return err
	}
	if err := takeKeys(id, got.Trust); err != nil {
		return err
	}
	if err := id.Replace(key, []byte(got.Certificate), id.Now(wall())); err != nil {
		return fmt.Errorf("cannot use headquarters' answer: %w", err)
	}
	return nil
}

func takeKeys(id *identity.Identity, sealed trust.Sealed) error {
	payload, err := json.Marshal(sealed)
	if err == nil {
		_, err = id.Take(payload)
	}
	if err != nil && !errors.Is(err, identity.ErrOldDocument) { // the broker was quicker
		return fmt.Errorf("cannot use headquarters' answer: %w", err)
	}
	return nil
}
