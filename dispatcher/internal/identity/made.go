package identity

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// madeFor is how long a rotation is remembered: far longer than an approval
	// waits, so that none that is given again makes a second one.
	madeFor = 24 * time.Hour
	// maxMade bounds what is remembered; two persons agree on each.
	maxMade = 64
)

// Rotated is a rotation that was made: the new key, and from when it signs.
type Rotated struct {
	Approval string        `json:"approval"`
	KeyID    string        `json:"kid"`
	From     protocol.Time `json:"from"`
	At       protocol.Time `json:"at"`
}

// kept is the file of the list of keys. The list and the rotations that led to
// it are written as one, so that a crash leaves both or neither.
type kept struct {
	trust.Sealed
	Rotations []Rotated `json:"rotations,omitempty"`
}

func (k kept) encode() ([]byte, error) {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", FileTrust, err)
	}
	return append(text, '\n'), nil
}

// RotatedBy returns the rotation that an approval made within the last day.
func (id *Identity) RotatedBy(approval string) (Rotated, bool) {
	for _, made := range id.rotations() {
		if made.Approval == approval && approval != "" {
			return made, true
		}
	}
	return Rotated{}, false
}

func (id *Identity) rotations() []Rotated {
	id.mu.RLock()
	defer id.mu.RUnlock()
	return id.made
}

// remember returns the rotations with one more and without the old ones.
func remember(before []Rotated, made Rotated) []Rotated {
	if made.Approval == "" {
		return before
	}
	young := slices.DeleteFunc(slices.Clone(before), func(r Rotated) bool { return made.At.Sub(r.At.Time) > madeFor })
	return append(young[max(0, len(young)-maxMade+1):], made)
}
