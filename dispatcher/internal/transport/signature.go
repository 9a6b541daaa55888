package transport

import (
	"github.com/eclipse/paho.golang/paho"

	"muster/internal/trust"
)

// The user properties of MQTT 5 in which a signature travels.
const (
	propertyKeyID     = "kid"
	propertySignature = "sig"
)

// userProperties are those of a signature, none for the zero one.
func userProperties(s trust.Signature) paho.UserProperties {
	if s.IsZero() {
		return nil
	}
	return paho.UserProperties{{Key: propertyKeyID, Value: s.KeyID}, {Key: propertySignature, Value: s.Value}}
}

// signatureOf reads the first of each of the two, as the broker inside this
// process does.
func signatureOf(properties paho.UserProperties) trust.Signature {
	return trust.Signature{KeyID: properties.Get(propertyKeyID), Value: properties.Get(propertySignature)}
}
