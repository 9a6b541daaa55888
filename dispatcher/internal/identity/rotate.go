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

// Rotation says how signing keys are replaced.
type Rotation struct {
	// Approval names who agreed to it; one approval makes one rotation, however
	// often it is asked for. Empty: nobody is remembered.
	Approval string
	// AtOnce strikes every older key out: the new one alone signs and is
	// believed, from now on. It is for a key that was stolen.
	AtOnce bool
	// Overlap, of 0, means DefaultOverlap. AtOnce has none.
	Overlap time.Duration
}

// Replace makes a new signing key and returns from when it signs. Unless it is
// AtOnce, the key is listed at once and signs from now + overlap; until then the
// present key does, which is believed for another overlap after the switch. It
// fails with ErrRotating while an earlier key still waits, which AtOnce strikes
// out too. Have Sealed published afterwards, also when the rotation was made before:
// what Announce did may have failed.
func (id *Identity) Replace(r Rotation, now time.Time) (Rotated, error) {
	if r.Overlap == 0 {
		r.Overlap = DefaultOverlap
	}
	if r.Overlap < 0 {
		return Rotated{}, fmt.Errorf("cannot rotate keys with an overlap of %s", r.Overlap)
	}
	id.change.Lock()
	defer id.change.Unlock()
	if made, done := id.RotatedBy(r.Approval); done {
		return made, nil
	}
	listed, turn := id.Keys().Keys, now.Add(-backdate) // what was written a moment ago is signed with it too
	if !r.AtOnce {
		turn = now.Add(r.Overlap)
		for _, k := range listed {
			if k.NotBefore.After(now) {
				return Rotated{}, fmt.Errorf("key %s signs from %s: %w", k.KeyID, k.NotBefore.Format(time.RFC3339), ErrRotating)
			}
		}
	}
	made, err := id.turnTo(r, listed, turn, now)
	if err != nil {
		return Rotated{}, fmt.Errorf("cannot rotate keys: %w", err)
	}
	if r.AtOnce {
		_ = id.deleteStrays() // nobody believes them any more; Prune tries again
	}
	return made, nil
}

// turnTo lists a new key, and the older ones unless they are struck out.
func (id *Identity) turnTo(r Rotation, older []trust.Key, turn, now time.Time) (Rotated, error) {
	next, err := id.makeSigningKey(turn)
	if err != nil {
		return Rotated{}, err
	}
	var keys []trust.Key
	if !r.AtOnce {
		keys = slices.Clone(older)
	}
	for i := range keys {
		keys[i].NotAfter = protocol.At(earlier(keys[i].NotAfter.Time, turn.Add(r.Overlap)).UTC())
	}
	made := Rotated{Approval: r.Approval, KeyID: next.KeyID, From: next.NotBefore, At: protocol.At(now.UTC())}
	if r.AtOnce {
		made.From = made.At
	}
	if err := id.replace(append(keys, next), remember(id.rotations(), made), now); err != nil {
		return Rotated{}, errors.Join(err, os.Remove(id.signingFile(next.KeyID)))
	}
	return made, nil
}

// Prune takes keys whose time is over off the list, deletes their files and
// says whether the list changed, which Announce tells.
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
	if err := id.replace(left, id.rotations(), now); err != nil {
		return false, fmt.Errorf("cannot take ended keys off the list: %w", err)
	}
	return true, id.deleteStrays()
}

// replace seals the next version of the list, keeps which rotations were made beside
// it, and announces it before anything is signed by it. No list is dated before the
// one that it replaces. The caller holds change.
func (id *Identity) replace(keys []trust.Key, made []Rotated, now time.Time) error {
	before := id.Keys()
	document := trust.Document{Version: before.Version + 1, At: protocol.At(later(now, before.At.Time).UTC()), Keys: keys}
	signers, err := id.signers(keys, now)
	if err != nil {
		return err
	}
	sealed, err := id.seal(document, made)
	if err != nil {
		return err
	}
	if id.announce != nil {
		id.announce(sealed)
	}
	id.mu.Lock()
	id.sealed, id.keys, id.signer, id.made = sealed, document, signers, made
	id.mu.Unlock()
	id.Reached(document.At.Time)
	return nil
}

// ownKey is how signing keys are called; other files are not ours to delete.
var ownKey = regexp.MustCompile(`^[0-9a-f]{16}\.key$`)

// deleteStrays removes the keys that the list does not name: those whose time
// is over, and one whose rotation a crash cut short, written or half written.
func (id *Identity) deleteStrays() error {
	if err := trust.RemoveUnfinished(id.path(FolderSigning)); err != nil {
		return err
	}
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
