package server

import (
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/internal/trust"
)

// The user properties that carry a message's signature (trust.Signature).
const (
	propertyKeyID     = "kid"
	propertySignature = "sig"
)

// signatureOf reads the first of each of the two properties. What is missing
// stays empty; judging it is not the broker's.
func signatureOf(properties []packets.UserProperty) (s trust.Signature) {
	for _, p := range properties {
		switch {
		case p.Key == propertyKeyID && s.KeyID == "":
			s.KeyID = p.Val
		case p.Key == propertySignature && s.Value == "":
			s.Value = p.Val
		}
	}
	return s
}

// signed are the user properties of a signature, none for the zero one.
func signed(s trust.Signature) []packets.UserProperty {
	if s.IsZero() {
		return nil
	}
	return []packets.UserProperty{{Key: propertyKeyID, Val: s.KeyID}, {Key: propertySignature, Val: s.Value}}
}
