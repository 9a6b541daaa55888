package link

import (
	"github.com/eclipse/paho.golang/paho"

	"muster/internal/trust"
)

// The user properties that carry a message's signature (trust.Signature).
const (
	propertyKeyID     = "kid"
	propertySignature = "sig"
)

// signatureOf reads the first of each of the two properties.
func signatureOf(p *paho.PublishProperties) trust.Signature {
	if p == nil {
		return trust.Signature{}
	}
	return trust.Signature{KeyID: p.User.Get(propertyKeyID), Value: p.User.Get(propertySignature)}
}

// signed gives the user properties for one message of this terminal.
func (l *Link) signed(topic string, payload []byte) paho.UserProperties {
	if l.cfg.Signer == nil {
		return nil
	}
	s := l.cfg.Signer().Sign(topic, payload)
	return paho.UserProperties{{Key: propertyKeyID, Value: s.KeyID}, {Key: propertySignature, Value: s.Value}}
}
