package identity

import (
	"fmt"
	"slices"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// Reached tells of a time by which headquarters may have signed already, also in
// an earlier process. Terminals hold headquarters' newest time against every key,
// so nothing is signed any more with a key that had ended then, although the clock
// was set back.
func (id *Identity) Reached(at time.Time) {
	for ms := at.UnixMilli(); ; {
		before := id.reached.Load()
		if ms <= before || id.reached.CompareAndSwap(before, ms) {
			return
		}
	}
}

// Signer is the key with which headquarters signs at now: the newest listed one
// whose time has come, and that had not ended by the newest time of headquarters.
// Where the clock was set back before all of these, it is the one that signed
// last, see Relist.
func (id *Identity) Signer(now time.Time) *trust.Signer {
	id.Reached(now)
	id.mu.RLock()
	defer id.mu.RUnlock()
	return id.signer[id.keys.Keys[id.signing(now)].KeyID]
}

// signing returns the place of the key that signs at now. Newer keys stand behind
// older ones. The caller holds mu.
func (id *Identity) signing(now time.Time) int {
	reached := later(now, time.UnixMilli(id.reached.Load()))
	for _, by := range []struct{ begun, notEnded time.Time }{{now, reached}, {reached, reached}, {now, now}} {
		for i, k := range slices.Backward(id.keys.Keys) {
			if !k.NotBefore.After(by.begun) && !by.notEnded.After(k.NotAfter.Time) {
				return i
			}
		}
	}
	return 0
}

// relistEvery bounds how often a list that cannot be sealed is tried: it is asked
// for with each message.
const relistEvery = time.Minute

// Relist lists the key that signs at now anew, valid from a moment ago, where its
// time has not come by a clock that was set back: terminals would refuse what it
// signs. The end of no key changes, and no key comes back that left the list. It
// says whether the list changed, which Announce tells. What fails is tried, and
// told, once a minute, and the error says what to do.
func (id *Identity) Relist(now time.Time) (bool, error) {
	if _, early := id.early(now); !early {
		return false, nil
	}
	id.change.Lock()
	defer id.change.Unlock()
	at, early := id.early(now)
	if !early || time.Now().Before(id.relistAt) {
		return false, nil
	}
	keys := slices.Clone(id.Keys().Keys)
	from := keys[at].NotBefore
	keys[at].NotBefore = protocol.At(now.Add(-backdate).UTC())
	if err := id.replace(keys, id.rotations(), now); err != nil {
		id.relistAt = time.Now().Add(relistEvery)
		return false, fmt.Errorf("headquarters' clock shows %s, and terminals believe its signing key %s from %s on: "+
			"set the clock, or, if it is right, see to it that the key can be listed anew: %w",
			now.UTC().Format(time.RFC3339), keys[at].KeyID, from.UTC().Format(time.RFC3339), err)
	}
	return true, nil
}

// early returns the place of the key that signs at now, and whether its time has
// not come.
func (id *Identity) early(now time.Time) (int, bool) {
	id.mu.RLock()
	defer id.mu.RUnlock()
	at := id.signing(now)
	return at, id.keys.Keys[at].NotBefore.After(now)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
