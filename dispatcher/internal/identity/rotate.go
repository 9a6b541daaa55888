package identity

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// DefaultOverlap is how long a new key is listed before it signs, and how long
// the old one is believed afterwards: a terminal that is on once a day learns of
// the new key in time.
const DefaultOverlap = 24 * time.Hour

// ErrRotating says that a new key waits for its time already.
var ErrRotating = errors.New("a rotation is under way")

// Rotate makes a new signing key. It is listed at once and signs from now +
// overlap; until then the present key does, which is believed for another
// overlap after the switch. An overlap of 0 means DefaultOverlap. It fails with
// ErrRotating while an earlier key still waits. Publish Sealed afterwards.
func (id *Identity) Rotate(overlap time.Duration, now time.Time) error {
	if overlap == 0 {
		overlap = DefaultOverlap
	}
	if overlap < 0 {
		return fmt.Errorf("cannot rotate keys with an overlap of %s", overlap)
	}
	id.change.Lock()
	defer id.change.Unlock()
	document := id.Keys()
	for _, k := range document.Keys {
		if k.NotBefore.After(now) {
			return fmt.Errorf("key %s signs from %s: %w", k.KeyID, k.NotBefore.Format(time.RFC3339), ErrRotating)
		}
	}
	turn := now.Add(overlap)
	next, err := id.makeSigningKey(turn)
	if err != nil {
		return fmt.Errorf("cannot rotate keys: %w", err)
	}
	keys := slices.Clone(document.Keys)
	for i := range keys {
		keys[i].NotAfter = protocol.At(earlier(keys[i].NotAfter.Time, turn.Add(overlap)).UTC())
	}
	if err := id.replace(append(keys, next), now); err != nil {
		return errors.Join(fmt.Errorf("cannot rotate keys: %w", err), os.Remove(id.signingFile(next.KeyID)))
	}
	return nil
}

// Prune takes keys whose time is over off the list, deletes their files and
// says whether the list changed: then publish Sealed.
func (id *Identity) Prune(now time.Time) (bool, error) {
	id.change.Lock()
	defer id.change.Unlock()
	document := id.Keys()
	left := slices.DeleteFunc(slices.Clone(document.Keys), func(k trust.Key) bool { return now.After(k.NotAfter.Time) })
	if len(left) == len(document.Keys) {
		return false, id.deleteStrays()
	}
	if len(left) == 0 {
		return false, errors.New("cannot take the last signing key off the list")
	}
	if err := id.replace(left, now); err != nil {
		return false, fmt.Errorf("cannot take ended keys off the list: %w", err)
	}
	return true, id.deleteStrays()
}

// replace seals the next version of the list.
func (id *Identity) replace(keys []trust.Key, now time.Time) error {
	document := trust.Document{Version: id.Keys().Version + 1, At: protocol.At(now.UTC()), Keys: keys}
	signers, err := id.signers(keys, now)
	if err != nil {
		return err
	}
	sealed, err := id.seal(document)
	if err != nil {
		return err
	}
	id.mu.Lock()
	id.sealed, id.keys, id.signer = sealed, document, signers
	id.mu.Unlock()
	return nil
}

// ownKey is how signing keys are called; other files are not ours to delete.
var ownKey = regexp.MustCompile(`^[0-9a-f]{16}\.key$`)

// deleteStrays removes the keys that the list does not name: those whose time
// is over, and one whose rotation a crash cut short.
func (id *Identity) deleteStrays() error {
	keys := id.Keys().Keys
	files, err := os.ReadDir(id.path(FolderSigning))
	if err != nil {
		return fmt.Errorf("cannot look for signing keys that are over: %w", err)
	}
	for _, file := range files {
		kid := strings.TrimSuffix(file.Name(), ".key")
		if !ownKey.MatchString(file.Name()) || slices.ContainsFunc(keys, func(k trust.Key) bool { return k.KeyID == kid }) {
			continue
		}
		if err := os.Remove(id.signingFile(kid)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot delete a signing key that is over: %w", err)
		}
	}
	return nil
}

// Signer is the newest listed key whose time has come: the one with which
// headquarters signs at now. It is the oldest one when the clock stands before
// all of them.
func (id *Identity) Signer(now time.Time) *trust.Signer {
	id.mu.RLock()
	defer id.mu.RUnlock()
	best := id.keys.Keys[0]
	for _, k := range id.keys.Keys[1:] {
		switch {
		case k.NotBefore.After(now):
			if best.NotBefore.After(now) && k.NotBefore.Before(best.NotBefore.Time) {
				best = k
			}
		case best.NotBefore.After(now), k.NotBefore.After(best.NotBefore.Time):
			best = k
		}
	}
	return id.signer[best.KeyID]
}

func (id *Identity) loadSigners(now time.Time) (err error) {
	id.signer, err = id.signers(id.keys.Keys, now)
	return err
}

// signers reads the private keys of a list.
func (id *Identity) signers(keys []trust.Key, now time.Time) (map[string]*trust.Signer, error) {
	out := make(map[string]*trust.Signer, len(keys))
	for _, k := range keys {
		text, err := trust.ReadPrivate(id.signingFile(k.KeyID))
		if err != nil && now.After(k.NotAfter.Time) {
			continue // Prune was cut short; nothing is signed with it
		}
		if err != nil {
			return nil, fmt.Errorf("signing key %s, which %s lists, cannot be read: %w", k.KeyID, FileTrust, err)
		}
		signer, err := trust.DecodeSigner(text)
		if err != nil {
			return nil, fmt.Errorf("cannot use signing key %s: %w", k.KeyID, err)
		}
		if signer.KeyID() != k.KeyID {
			return nil, fmt.Errorf("cannot use signing key %s: the file holds key %s", k.KeyID, signer.KeyID())
		}
		out[k.KeyID] = signer
	}
	return out, nil
}

func (id *Identity) signingFile(kid string) string { return id.path(FolderSigning, kid+".key") }
